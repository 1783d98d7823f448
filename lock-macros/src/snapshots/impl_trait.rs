async fn pay<'a, const N: usize>(
    ids: &'a [u64; N],
) -> Result<impl Iterator<Item = u64> + 'a, Error> {
    let __lock = ::lock_runtime::attribute::global(
        ::core::stringify!(order_key(& ids)),
        ::lock_runtime::attribute::ToString::to_string(&order_key(&ids)),
    );
    return ::core::result::Result::unwrap_or_else(
        match ::lock_runtime::attribute::acquire(__lock).await {
            ::core::result::Result::Ok(ref __lock_held) => {
                ::lock_runtime::attribute::Locked::new(
                        __lock_held,
                        async move {
                            if let ::core::option::Option::Some(__lock_output) = ::core::option::Option::None::<
                                Result<_, Error>,
                            > {
                                return __lock_output;
                            }
                            { Ok(ids.iter().copied()) }
                        },
                    )
                    .await
            }
            ::core::result::Result::Err(__lock_error) => {
                ::core::result::Result::Err(__lock_error)
            }
        },
        |__lock_error| ::lock_runtime::FromLockError::from_lock_error(__lock_error),
    );
}
