async fn transfer(from: u64, to: u64) -> Result<(), Error> {
    const fn __distributed_lock() {}
    let __distributed_lock = ::lock_runtime::__private::global_lock_all(
            const {
                &::lock_runtime::__private::site(
                    ::core::concat!(
                        "account:<from>", " ", "account:{to}", " ",
                        ::core::stringify!(ledger())
                    ),
                    ::core::concat!(::core::module_path!(), "::transfer"),
                    ::core::file!(),
                    ::core::line!(),
                )
            },
            [
                ::lock_runtime::__private::format!(
                    "account:{}", ::lock_runtime::__private::value(&& (from))
                ),
                ::lock_runtime::__private::format!(
                    "account:{}", ::lock_runtime::__private::value(&& (to))
                ),
                ::lock_runtime::__private::key(&(ledger())),
            ],
        )
        .min_hold(::lock_runtime::__private::Duration::from_millis(5000u64))
        .read()
        .max_waiters(LIMITS.waiters)
        .reentrant(true);
    let __distributed_lock = ::lock_runtime::__private::acquire(__distributed_lock)
        .await;
    return ::core::result::Result::unwrap_or_else(
        match __distributed_lock {
            ::core::result::Result::Ok(ref __distributed_lock) => {
                ::lock_runtime::__private::Guarded::new(
                        __distributed_lock,
                        async move {
                            #[allow(unused_variables)]
                            let from = from;
                            #[allow(unused_variables)]
                            let to = to;
                            if let ::core::option::Option::Some(__distributed_lock) = ::core::option::Option::None::<
                                Result<(), Error>,
                            > {
                                return __distributed_lock;
                            }
                            #[allow(unused_braces)] { Ok(()) }
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
