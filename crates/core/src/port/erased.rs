//! The boxed form of a port, which its erased type calls.

use std::future::Future;
use std::pin::Pin;

use crate::error::Result;

/// The answer of a method of a boxed port.
pub(super) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Makes the boxed form of a port, and every implementor of the port one of its own.
macro_rules! erase {
    ($(#[$attribute:meta])* $erased:ident from $port:ident { $($method:ident($($input:ident: $type:ty),* $(,)?) -> $answer:ty;)+ }) => {
        $(#[$attribute])*
        trait $erased: Send + Sync {
            $(fn $method<'a>(&'a self $(, $input: $type)*) -> super::erased::Answer<'a, $answer>;)+
        }

        $(#[$attribute])*
        impl<S: $port> $erased for S {
            $(fn $method<'a>(&'a self $(, $input: $type)*) -> super::erased::Answer<'a, $answer> {
                Box::pin($port::$method(self $(, $input)*))
            })+
        }
    };
}

pub(super) use erase;
