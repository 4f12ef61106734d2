//! A layer over a source, without the methods that it does not change.

/// Writes all methods of a [`Source`](crate::port::source::Source) but `fetch`, each of which calls the source below.
///
/// ```
/// use semel_core::port::source::{Fetched, Source};
/// use semel_core::{Result, forward_source};
///
/// /// A source that asks for one delivery at a time.
/// struct Single<S>(S);
///
/// impl<S: Source> Source for Single<S> {
///     async fn fetch(&mut self, _max: usize) -> Result<Fetched> {
///         self.0.fetch(1).await
///     }
///
///     forward_source!(self => self.0);
/// }
/// ```
#[macro_export]
macro_rules! forward_source {
    ($this:ident => $inner:expr) => {
        async fn acknowledge(
            &mut $this,
            batch: &[$crate::port::source::Acknowledgement],
        ) -> $crate::Result<()> {
            $crate::port::source::Source::acknowledge(&mut $inner, batch).await
        }

        async fn requeue(
            &mut $this,
            batch: &[$crate::port::source::DeliveryId],
        ) -> $crate::Result<()> {
            $crate::port::source::Source::requeue(&mut $inner, batch).await
        }

        async fn extend(
            &mut $this,
            batch: &[$crate::port::source::DeliveryId],
        ) -> $crate::Result<()> {
            $crate::port::source::Source::extend(&mut $inner, batch).await
        }

        async fn prefetch_more(&mut $this, unsettled: usize) -> $crate::Result<()> {
            $crate::port::source::Source::prefetch_more(&mut $inner, unsettled).await
        }

        async fn close(&mut $this) -> $crate::Result<()> {
            $crate::port::source::Source::close(&mut $inner).await
        }

        fn progress(&$this) -> ::core::option::Option<$crate::port::source::Progress> {
            $crate::port::source::Source::progress(&$inner)
        }

        fn hold(&$this) -> ::core::option::Option<::core::time::Duration> {
            $crate::port::source::Source::hold(&$inner)
        }
    };
}
