async fn consume(id: u32) -> Result<(), Error> {
    const fn __distributed_lock() {}
    let __distributed_lock = ::lock_runtime::__private::global_lock(
            const {
                &::lock_runtime::__private::site(
                    "partition:<id>",
                    ::core::concat!(::core::module_path!(), "::consume"),
                    ::core::file!(),
                    ::core::line!(),
                )
            },
            ::lock_runtime::__private::format!(
                "partition:{}", ::lock_runtime::__private::value(&& (id))
            ),
        )
        .release_mode(::lock_runtime::ReleaseMode::Lazy)
        .on_lost(::lock_runtime::OnLost::Cancel);
    let __distributed_lock = ::lock_runtime::__private::acquire(__distributed_lock)
        .await;
    return ::core::result::Result::unwrap_or_else(
        match __distributed_lock {
            ::core::result::Result::Ok(ref __distributed_lock) => {
                ::lock_runtime::__private::Guarded::new(
                        __distributed_lock,
                        async move {
                            #[allow(unused_variables)]
                            let id = id;
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
