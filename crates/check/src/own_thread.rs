//! Work that may block its thread, on a thread of its own.

use std::sync::Arc;

use semel_config::StoreUrl;
use semel_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;

/// Does work about a store: of a file it is opened, read and closed on a thread for that, since each of these may wait for a
/// lock or a slow disk, and whoever asks may be a worker. That goes on to its end even if nobody waits for it any more, and
/// has `unfinished` until then.
///
/// # Errors
///
/// Those of `work`
///
/// # Cancel safety   safe
pub(crate) async fn apart<T: Send + 'static>(
    url: &StoreUrl,
    unfinished: &Arc<()>,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    if url.is_server() {
        return work.await;
    }
    let (runtime, unfinished) = (Handle::current(), Arc::clone(unfinished));
    let done = tokio::task::spawn_blocking(move || {
        let done = runtime.block_on(work);
        drop(unfinished);
        done
    });
    done.await.map_err(|error| {
        Error::new(ErrorKind::Internal, "the look at the store ended").with_source(error)
    })?
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn what_blocks_keeps_nobody_else_waiting_and_is_known_until_its_end() {
        let (go_on, wait) = mpsc::sync_channel::<()>(1);
        let unfinished = Arc::new(());
        let blocked = async move {
            let _ = wait.recv();
            Ok(())
        };
        let asked = apart(&StoreUrl::Memory, &unfinished, blocked);
        // The only thread of this runtime sees the time pass.
        let answered = timeout(Duration::from_millis(10), asked).await;
        assert!(answered.is_err());
        assert_eq!(Arc::strong_count(&unfinished), 2);
        drop(go_on);
        while Arc::strong_count(&unfinished) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
