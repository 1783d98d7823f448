async fn call(&self) -> Result<(), Error> {
    const fn __distributed_lock() {}
    let __distributed_lock = match &(self.locks) {
        __distributed_lock => {
            ::lock_runtime::__private::lock_on(
                    __distributed_lock,
                    const {
                        &::lock_runtime::__private::site(
                            "partner",
                            ::core::concat!(::core::module_path!(), "::call"),
                            ::core::file!(),
                            ::core::line!(),
                        )
                    },
                    ::lock_runtime::__private::format!("partner"),
                )
                .permits(self.permits)
        }
    };
    let __distributed_lock = ::lock_runtime::__private::acquire(__distributed_lock)
        .await;
    return ::core::result::Result::unwrap_or_else(
        match __distributed_lock {
            ::core::result::Result::Ok(ref __distributed_lock) => {
                ::lock_runtime::__private::Guarded::new(
                        __distributed_lock,
                        async move {
                            #[allow(clippy::used_underscore_binding)]
                            let _ = &self;
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
