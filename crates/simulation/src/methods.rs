//! The methods of a store, for doubles that do the same around each of them.

/// Hands the signatures of all methods of [`Store`](semel_core::Store) to the macro `$each`, each as
/// `name(input: type, …) -> answer;`.
#[macro_export]
macro_rules! store_methods {
    ($each:ident) => {
        $each! {
            claim(batch: &[::semel_core::ClaimRequest]) -> Vec<::semel_core::Admission>;
            settle(batch: &[::semel_core::Settlement]) -> Vec<::semel_core::Settled>;
            renew(batch: &[::semel_core::Renewal]) -> Vec<::semel_core::Renewed>;
            park(batch: &[::semel_core::Parked]) -> Vec<bool>;
            drop_parked(
                batch: &[::semel_core::ParkedId],
                note: Option<&::semel_core::Note>
            ) -> Vec<bool>;
            get(batch: &[::semel_core::Operation]) -> Vec<Option<::semel_core::Record>>;
            list(query: &::semel_core::port::store::ListQuery)
                -> ::semel_core::port::store::Page<::semel_core::port::store::Listed>;
            list_parked(query: &::semel_core::port::store::ListQuery)
                -> ::semel_core::port::store::Page<::semel_core::Parked>;
            operate(batch: &[::semel_core::decide::Directive])
                -> Vec<::semel_core::decide::Directed>;
            list_audit(query: &::semel_core::port::store::ListQuery)
                -> ::semel_core::port::store::Page<::semel_core::Audited>;
            sweep(limit: usize) -> ::semel_core::port::store::Swept;
            stats() -> ::semel_core::port::store::Stats;
            preflight() -> ::semel_core::port::store::Capabilities;
        }
    };
}
