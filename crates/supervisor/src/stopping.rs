//! Waits that a stop ends.

use tokio::sync::watch;

/// Waits until a stop is asked for.
pub(crate) fn stopped(stop: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + 'static {
    let mut stop = stop.subscribe();
    async move {
        let _ = stop.wait_for(|is_asked| *is_asked).await;
    }
}

/// Waits for what is only worth knowing, no longer than until a stop is asked for.
pub(crate) async fn unless_stopped(stop: &watch::Sender<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = stopped(stop) => {}
        () = work => {}
    }
}
