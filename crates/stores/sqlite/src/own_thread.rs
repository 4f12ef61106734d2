//! Work that may wait for a lock or a slow disk, on a thread for that: whoever asks may have only one.

use semel_core::{Error, ErrorKind, Result};

/// Does work on a thread where it may block. It goes on to its end even if nobody waits for it any more. Needs a tokio
/// runtime.
///
/// # Errors
///
/// Those of `work`; `Internal`: it panicked, or the runtime ends
///
/// # Cancel safety   safe
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| {
        Error::new(ErrorKind::Internal, "the look at the file ended").with_source(error)
    })?
}
