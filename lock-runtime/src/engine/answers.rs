//! How the requests that engines answer are declared: each once, with its documentation.
//!
//! [`declare!`] makes a trait whose methods return boxed futures, so that there may be a `dyn` of it, and a
//! macro that implements the trait, such as `answer_operations! { RedisEngine: own[ping views] pass[ask] }`.
//! A type answers a request by
//!
//! * its **own** `async fn` of that name, in the file that is about it,
//! * or **pass**es it on to what its `pass(deadline)` returns.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::operations::Reading;
use crate::engine::request::EngineFuture;
use tokio::time::Instant;

/// Declares a trait in a module, and the macro that implements it. The last argument of each method is its
/// deadline. A method that a type does not answer replies what follows its `=`, or else that the engine does
/// not support it.
macro_rules! declare {
    (
        ($dollar:tt of $($module:tt)+)
        $(#[$about:meta])*
        trait $trait:ident, implemented by $implement:ident and $method:ident;
        $(
            $(#[$doc:meta])*
            fn $name:ident<$a:lifetime>($($argument:ident: $type:ty),*; $until:ident: $deadline:ty)
                -> $reply:ty $(= $default:expr)?;
        )*
    ) => {
        $(#[$about])*
        pub(crate) trait $trait: Send + Sync {
            $(
                $(#[$doc])*
                fn $name<$a>(
                    &$a self,
                    $($argument: $type,)*
                    $until: $deadline,
                ) -> EngineFuture<$a, $reply> {
                    let _ = ($($argument,)* $until);
                    crate::engine::answers::default!($($default)?)
                }
            )*
        }

        macro_rules! $method {
            $(
                (own $name) => {
                    $(#[$doc])*
                    fn $name<$a>(
                        &$a self,
                        $($argument: $type,)*
                        $until: $deadline,
                    ) -> EngineFuture<$a, $reply> {
                        Box::pin(self.$name($($argument,)* $until))
                    }
                };
                (pass $name) => {
                    $(#[$doc])*
                    fn $name<$a>(
                        &$a self,
                        $($argument: $type,)*
                        $until: $deadline,
                    ) -> EngineFuture<$a, $reply> {
                        Box::pin(async move {
                            let next = self.pass(crate::engine::answers::Due::due(&$until)).await?;
                            next.$name($($argument,)* $until).await
                        })
                    }
                };
            )*
        }

        macro_rules! $implement {
            ($dollar engine:ty: $dollar($dollar how:ident[$dollar($dollar name:ident)*])*) => {
                const _: () = {
                    use $($module)+::*;

                    impl $trait for $dollar engine {
                        $dollar($dollar($method! { $dollar how $dollar name })*)*
                    }
                };
            };
        }

        pub(crate) use {$implement, $method};
    };
}

macro_rules! default {
    () => {
        crate::engine::answers::unsupported()
    };
    ($reply:expr) => {
        Box::pin(std::future::ready($reply))
    };
}

pub(crate) use {declare, default};

/// The deadline of a request.
pub(crate) trait Due {
    fn due(&self) -> Instant;
}

impl Due for Instant {
    fn due(&self) -> Instant {
        *self
    }
}

impl Due for Reading {
    fn due(&self) -> Instant {
        self.next()
    }
}

pub(crate) fn unsupported<'a, T: Send + 'a>() -> EngineFuture<'a, T> {
    let words = "this engine does not support it";
    let error = EngineError::new(EngineErrorKind::Rejected, words);
    Box::pin(std::future::ready(Err(error)))
}
