async fn pay<'a, const N: usize>(
    ids: &'a [u64; N],
) -> Result<impl Iterator<Item = u64> + 'a, Error> {
    const fn __distributed_lock() {}
    let __distributed_lock = ::lock_runtime::__private::global_lock(
        const {
            &::lock_runtime::__private::site(
                ::core::stringify!(order_key(& ids)),
                ::core::concat!(::core::module_path!(), "::pay"),
                ::core::file!(),
                ::core::line!(),
            )
        },
        ::lock_runtime::__private::key(&(order_key(&ids))),
    );
    let __distributed_lock = ::lock_runtime::__private::acquire(__distributed_lock)
        .await;
    return ::core::result::Result::unwrap_or_else(
        match __distributed_lock {
            ::core::result::Result::Ok(ref __distributed_lock) => {
                ::lock_runtime::__private::Guarded::new(
                        __distributed_lock,
                        async move {
                            let ids = ids;
                            if let ::core::option::Option::Some(__distributed_lock) = ::core::option::Option::None::<
                                Result<_, Error>,
                            > {
                                return __distributed_lock;
                            }
                            #[allow(unused_braces)] { Ok(ids.iter().copied()) }
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
