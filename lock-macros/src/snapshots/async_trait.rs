#[must_use]
fn pay<'life0, 'async_trait>(
    &'life0 self,
    id: u64,
) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'async_trait>>
where
    'life0: 'async_trait,
    Self: 'async_trait,
{
    Box::pin(async move {
        let __lock = ::lock_runtime::attribute::global(
            "order:{id}",
            ::lock_runtime::attribute::format!("order:{id}"),
        );
        return ::core::result::Result::unwrap_or_else(
            match ::lock_runtime::attribute::acquire(__lock).await {
                ::core::result::Result::Ok(ref __lock_held) => {
                    ::lock_runtime::attribute::Locked::new(
                            __lock_held,
                            async move {
                                if let ::core::option::Option::Some(__lock_output) = ::core::option::Option::None::<
                                    Result<(), Error>,
                                > {
                                    return __lock_output;
                                }
                                {
                                    let __self = self;
                                    let id = id;
                                    __self.store(id).await
                                }
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
    })
}
