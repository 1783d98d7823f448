async fn pay(&mut self, order: Order) -> Result<Paid, Error> {
    let __lock = match &self.locks {
        __lock_manager => {
            crate::lock_runtime::attribute::on(
                    __lock_manager,
                    "<self.tenant>:<order.id():08>",
                    crate::lock_runtime::attribute::format!(
                        "{}:{:08}", self.tenant, order.id()
                    ),
                )
                .ttl(crate::lock_runtime::attribute::Duration::from_millis(90000u64))
                .wait(crate::lock_runtime::attribute::Duration::MAX)
                .max_hold(MAX_HOLD)
                .renew(false)
                .replicas(2)
                .on_lost(crate::lock_runtime::OnLost::Continue)
        }
    };
    return ::core::result::Result::unwrap_or_else(
        match crate::lock_runtime::attribute::acquire(__lock).await {
            ::core::result::Result::Ok(ref __lock_held) => {
                crate::lock_runtime::attribute::Locked::new(
                        __lock_held,
                        async move {
                            if let ::core::option::Option::Some(__lock_output) = ::core::option::Option::None::<
                                Result<Paid, Error>,
                            > {
                                return __lock_output;
                            }
                            let lock: &crate::lock_runtime::LockGuard = __lock_held;
                            {
                                self.paid.insert(order.id(), lock.fencing_token().await?);
                                Ok(Paid::Now)
                            }
                        },
                    )
                    .await
            }
            ::core::result::Result::Err(__lock_error) if __lock_error.is_busy() => {
                return { Ok(Paid::Already) };
            }
            ::core::result::Result::Err(__lock_error) => {
                ::core::result::Result::Err(__lock_error)
            }
        },
        |error| Err(Error::lock(error)),
    );
}
