/// Pays.
pub async fn pay(Path(id): Path<u64>) -> Result<Order, Error> {
    #![allow(dead_code)]
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
                                Result<Order, Error>,
                            > {
                                return __lock_output;
                            }
                            {
                                let order = load(id).await?;
                                Ok(order.pay())
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
}
