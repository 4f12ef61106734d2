//! Removes records that have passed their window, in small steps beside the work.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Result, Store};

use crate::event::{Event, Observer};
use crate::surroundings::Shutdown;

/// Returns the interval of sweeps for a window: records are forgotten at the latest an eighth of their window after it,
/// so a sweep comes round twice in that time, and at least every minute.
#[must_use]
pub fn interval(window: Duration) -> Duration {
    (window / 16).clamp(SHORTEST, LONGEST)
}

/// Sweeps `store` every `every` until shutdown is requested, in steps of bounded work. A step that
/// fails is tried again in the next round; only space depends on it.
///
/// # Cancel safety   safe at any point
pub async fn sweep_until(
    store: impl Store,
    every: Duration,
    mut shutdown: Shutdown,
    observer: Arc<dyn Observer>,
) {
    loop {
        tokio::select! {
            biased;
            () = shutdown.request() => return,
            () = tokio::time::sleep(every) => {}
        }
        if let Ok((removed, doubted)) = sweep_once(&store).await
            && removed + doubted > 0
        {
            observer.observe("", &Event::Swept { removed, doubted });
        }
    }
}

/// Sweeps until nothing is left to do now. Returns the count of removed records and the count of
/// started operations found in doubt.
///
/// # Errors
///
/// those of [`Store::sweep`]
pub async fn sweep_once(store: &impl Store) -> Result<(u64, u64)> {
    let (mut removed, mut doubted) = (0, 0);
    loop {
        let swept = store.sweep(STEP).await?;
        removed += swept.removed;
        doubted += swept.doubted;
        if !swept.more {
            return Ok((removed, doubted));
        }
        tokio::task::yield_now().await;
    }
}

const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);
/// Records visited in one step.
const STEP: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_comes_round_twice_in_an_eighth_of_the_window() {
        let secs = Duration::from_secs;
        assert_eq!(interval(secs(160)), secs(10));
        assert_eq!(interval(secs(0)), SHORTEST);
        assert_eq!(interval(secs(7 * 86_400)), LONGEST);
    }
}
