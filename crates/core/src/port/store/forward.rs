//! The methods of the store port as a list, for layers in front of a store: a method that is added here is forwarded by
//! every layer.

/// Implements the methods of [`Store`](crate::Store) by those of another store, all but the named ones.
///
/// It stands in the body of an `impl Store`, beside the methods that it leaves out. The store is an expression,
/// evaluated anew by each call; with a `?` in it, its error is the answer.
///
/// ```
/// use std::sync::Arc;
///
/// use semel_core::{Admission, ClaimRequest, Result, Store, forward_store};
///
/// /// Says how much is claimed at once.
/// struct Loud<S>(S);
///
/// impl<S: Store> Store for Loud<S> {
///     async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
///         println!("{} claims", batch.len());
///         self.0.claim(batch).await
///     }
///
///     forward_store!(self => self.0; but claim);
/// }
/// ```
#[macro_export]
macro_rules! forward_store {
    ($this:ident => $inner:expr $(; but $($own:ident),+)?) => {
        $crate::store_methods!([$crate::forward_each] ($this) ($inner) [$($($own)+)?]);
    };
}

/// Hands the signatures of all methods of [`Store`](crate::Store) to the macro `$each`, each as
/// `name(input: type, …) -> answer;`. For macros that do the same around each of them.
#[macro_export]
macro_rules! store_methods {
    ($each:ident) => {
        $crate::store_methods!([$each]);
    };
    ([$($each:tt)+] $($with:tt)*) => {
        $($each)+! {
            $($with)*
            claim(batch: ::std::sync::Arc<[$crate::ClaimRequest]>) -> Vec<$crate::Admission>;
            settle(batch: ::std::sync::Arc<[$crate::Settlement]>) -> Vec<$crate::Settled>;
            renew(batch: ::std::sync::Arc<[$crate::Renewal]>) -> Vec<$crate::Renewed>;
            park(batch: ::std::sync::Arc<[$crate::Parked]>) -> Vec<bool>;
            drop_parked(batch: ::std::sync::Arc<[$crate::ParkedId]>, note: Option<&$crate::Note>) -> Vec<bool>;
            get(batch: ::std::sync::Arc<[$crate::Operation]>) -> Vec<Option<$crate::Record>>;
            list(query: &$crate::port::store::ListQuery)
                -> $crate::port::store::Page<$crate::port::store::Listed>;
            list_parked(query: &$crate::port::store::ListQuery)
                -> $crate::port::store::Page<$crate::Parked>;
            operate(batch: ::std::sync::Arc<[$crate::decide::Directive]>) -> Vec<$crate::decide::Directed>;
            list_audit(query: &$crate::port::store::ListQuery)
                -> $crate::port::store::Page<$crate::Audited>;
            sweep(limit: usize) -> $crate::port::store::Swept;
            stats() -> $crate::port::store::Stats;
            estimate(most: usize) -> $crate::port::store::Stats;
            preflight() -> $crate::port::store::Capabilities;
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! forward_each {
    (
        ($this:ident) ($inner:expr) $own:tt
        $($method:ident($($input:ident: $type:ty),*) -> $answer:ty;)+
    ) => {
        $($crate::forward_unless_own! { $own $method
            async fn $method(&$this, $($input: $type),*) -> $crate::Result<$answer> {
                $inner.$method($($input),*).await
            }
        })+
    };
}

/// One line a method: a macro can only compare a name with one that it spells out.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_unless_own {
    ([] $method:ident $($item:tt)+) => { $($item)+ };
    ([claim $($own:ident)*] claim $($item:tt)+) => {};
    ([settle $($own:ident)*] settle $($item:tt)+) => {};
    ([renew $($own:ident)*] renew $($item:tt)+) => {};
    ([park $($own:ident)*] park $($item:tt)+) => {};
    ([drop_parked $($own:ident)*] drop_parked $($item:tt)+) => {};
    ([get $($own:ident)*] get $($item:tt)+) => {};
    ([list $($own:ident)*] list $($item:tt)+) => {};
    ([list_parked $($own:ident)*] list_parked $($item:tt)+) => {};
    ([operate $($own:ident)*] operate $($item:tt)+) => {};
    ([list_audit $($own:ident)*] list_audit $($item:tt)+) => {};
    ([sweep $($own:ident)*] sweep $($item:tt)+) => {};
    ([stats $($own:ident)*] stats $($item:tt)+) => {};
    ([estimate $($own:ident)*] estimate $($item:tt)+) => {};
    ([preflight $($own:ident)*] preflight $($item:tt)+) => {};
    ([$other:ident $($own:ident)*] $method:ident $($item:tt)+) => {
        $crate::forward_unless_own! { [$($own)*] $method $($item)+ }
    };
}
