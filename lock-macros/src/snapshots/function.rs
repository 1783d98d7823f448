/// Pays.
pub async fn pay(Path(id): Path<u64>) -> Result<Order, Error> {
    #![allow(dead_code)]
    const fn __distributed_lock() {}
    let __distributed_lock = ::lock_runtime::__private::global_lock(
        const {
            &::lock_runtime::__private::site(
                "order:{id}",
                ::core::concat!(::core::module_path!(), "::pay"),
                ::core::file!(),
                ::core::line!(),
            )
        },
        ::lock_runtime::__private::format!(
            "order:{}", ::lock_runtime::__private::value(&& (id))
        ),
    );
    let __distributed_lock = ::lock_runtime::__private::acquire(__distributed_lock)
        .await;
    return ::core::result::Result::unwrap_or_else(
        match __distributed_lock {
            ::core::result::Result::Ok(ref __distributed_lock) => {
                ::lock_runtime::__private::Guarded::new(
                        __distributed_lock,
                        async move {
                            let id = id;
                            if let ::core::option::Option::Some(__distributed_lock) = ::core::option::Option::None::<
                                Result<Order, Error>,
                            > {
                                return __distributed_lock;
                            }
                            #[allow(unused_braces)]
                            {
                                let order = load(id).await?;
                                Ok(order.pay())
                            }
                        },
                    )
                    .await
            }
            ::core::result::Result::Err(__distributed_lock) => {
                ::core::result::Result::Err(__distributed_lock)
            }
        },
        |__distributed_lock| ::lock_runtime::FromLockError::from_lock_error(
            __distributed_lock,
        ),
    );
}
