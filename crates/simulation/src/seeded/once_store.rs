//! The store as calls of `once` reach it. They run on tasks of their own, which survive a kill; their calls no
//! longer reach the store.

use semel_core::{Result, Store};

use crate::seeded::life::Mortal;
use crate::seeded::store::SimStore;

/// One process's way to the store.
#[derive(Clone)]
pub(crate) struct OnceStore(pub(crate) SimStore);

macro_rules! while_it_lives {
    ($($method:ident($($name:ident: $type:ty),*) -> $answer:ty;)+) => {
        #[deny(clippy::missing_trait_methods)]
        impl Store for OnceStore {
            $(async fn $method(&self, $($name: $type),*) -> Result<$answer> {
                let Self(inner) = self;
                Mortal::new(&inner.0, inner.$method($($name),*)).await
            })+
        }
    };
}

semel_core::store_methods!(while_it_lives);
