async fn pay(&mut self, order: Order) -> Result<Paid, Error> {
    const fn __distributed_lock() {}
    let __distributed_lock = match &(self.locks) {
        __distributed_lock => {
            crate::lock_runtime::__private::lock_on(
                    __distributed_lock,
                    const {
                        &crate::lock_runtime::__private::site(
                            "<self.tenant>:<order.id():08>",
                            ::core::concat!(::core::module_path!(), "::pay"),
                            ::core::file!(),
                            ::core::line!(),
                        )
                    },
                    crate::lock_runtime::__private::format!(
                        "{}:{:08}", crate ::lock_runtime::__private::value(&& (self
                        .tenant)), order.id()
                    ),
                )
                .ttl(crate::lock_runtime::__private::Duration::from_millis(90000u64))
                .wait(crate::lock_runtime::__private::Duration::MAX)
                .max_hold(MAX_HOLD)
                .label(
                    crate::lock_runtime::__private::format!(
                        "tenant {}", crate ::lock_runtime::__private::value(&& (self
                        .tenant))
                    ),
                )
                .renew(false)
                .replicas(2)
                .on_lost(crate::lock_runtime::OnLost::Continue)
        }
    };
    let __distributed_lock = crate::lock_runtime::__private::acquire(__distributed_lock)
        .await;
    return match __distributed_lock {
        ::core::result::Result::Err(
            ref __distributed_lock,
        ) if __distributed_lock.is_busy() => Ok(Paid::Already),
        _ => {
            ::core::result::Result::unwrap_or_else(
                match __distributed_lock {
                    ::core::result::Result::Ok(ref __distributed_lock) => {
                        crate::lock_runtime::__private::Guarded::new(
                                __distributed_lock,
                                async move {
                                    #[allow(clippy::used_underscore_binding)]
                                    let _ = &self;
                                    let order = order;
                                    if let ::core::option::Option::Some(__distributed_lock) = ::core::option::Option::None::<
                                        Result<Paid, Error>,
                                    > {
                                        return __distributed_lock;
                                    }
                                    let lock: &crate::lock_runtime::LockGuard = __distributed_lock;
                                    #[allow(unused_braces)]
                                    {
                                        self.paid.insert(order.id(), lock.fencing_token().await?);
                                        Ok(Paid::Now)
                                    }
                                },
                            )
                            .await
                    }
                    ::core::result::Result::Err(__distributed_lock) => {
                        ::core::result::Result::Err(__distributed_lock)
                    }
                },
                |error| Err(Error::lock(error)),
            )
        }
    };
}
