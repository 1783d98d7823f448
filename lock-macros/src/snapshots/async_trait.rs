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
                                #[allow(clippy::used_underscore_binding)]
                                let _ = &id;
                                #[allow(clippy::used_underscore_binding)]
                                let _ = &self;
                                if let ::core::option::Option::Some(__distributed_lock) = ::core::option::Option::None::<
                                    Result<(), Error>,
                                > {
                                    return __distributed_lock;
                                }
                                #[allow(unused_braces)]
                                {
                                    let __self = self;
                                    let id = id;
                                    __self.store(id).await
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
    })
}
