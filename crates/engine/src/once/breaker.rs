//! A breaker shared by operations whose effects have one target.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{End, Failure};
use super::op::Op;
use super::values::locked;

/// Leaves a target alone that was not reached. Cheap to clone; clones are the same breaker, and operations with one
/// target share it.
///
/// The first [`Failure::away`] opens it. While it is open, effects are not called: calls fail with [`TargetAway`],
/// which surely was not applied, costs no attempt and says when to come back. One call at a time is let through to
/// try the target, after a tenth of a second at first and every second in the end; any end of it but another
/// [`Failure::away`] closes the breaker. Outcomes on record are returned as ever.
#[derive(Clone, Debug, Default)]
pub struct EffectBreaker(Arc<Mutex<Option<Open>>>);

#[derive(Debug)]
struct Open {
    wait: Duration,
    next_try: Instant,
    is_tried: bool,
}

impl EffectBreaker {
    /// Returns a breaker that is closed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells whether effects are not called now, except for one that tries the target.
    pub fn is_open(&self) -> bool {
        locked(&self.0).is_some()
    }

    /// Runs `effect`, unless the target is left alone.
    pub(super) async fn guard<T>(
        &self,
        effect: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let pass = self.enter().map_err(TargetAway::failure)?;
        let ended = effect.await;
        pass.ends(ended.as_ref().is_err_and(Failure::is_away));
        ended
    }

    /// Lets a call of an effect begin.
    pub(super) fn enter(&self) -> Result<Pass, TargetAway> {
        let mut open = locked(&self.0);
        let is_probe = match &mut *open {
            None => false,
            Some(open) => {
                let left = open.next_try.saturating_duration_since(Instant::now());
                if open.is_tried || !left.is_zero() {
                    let retry_after = left.max(FIRST_WAIT);
                    return Err(TargetAway { retry_after });
                }
                open.is_tried = true;
                true
            }
        };
        Ok(Pass {
            breaker: self.clone(),
            is_probe,
            has_ended: false,
        })
    }
}

/// A call of an effect that was let through. If it is dropped before it ends, it says nothing about the target.
pub(super) struct Pass {
    breaker: EffectBreaker,
    is_probe: bool,
    has_ended: bool,
}

impl Pass {
    /// Notes that the call has ended, and whether the target was away.
    pub(super) fn ends(mut self, is_away: bool) {
        self.has_ended = true;
        let mut open = locked(&self.breaker.0);
        match &mut *open {
            // A call that was under way when the target went away says nothing about its return.
            Some(_) if !self.is_probe => {}
            Some(open) if is_away => open.again((open.wait * 2).min(LONGEST_WAIT)),
            Some(_) => *open = None,
            None if is_away => {
                *open = Some(Open {
                    wait: FIRST_WAIT,
                    next_try: Instant::now() + FIRST_WAIT,
                    is_tried: false,
                });
            }
            None => {}
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.has_ended || !self.is_probe {
            return;
        }
        if let Some(open) = &mut *locked(&self.breaker.0) {
            open.again(open.wait);
        }
    }
}

impl Open {
    fn again(&mut self, wait: Duration) {
        self.wait = wait;
        self.next_try = Instant::now() + wait;
        self.is_tried = false;
    }
}

/// Runs an effect, unless its target is left alone.
pub(super) async fn guarded<T, Fut>(
    breaker: Option<&EffectBreaker>,
    effect: impl FnOnce(Op) -> Fut,
    op: Op,
) -> Result<T, Failure>
where
    Fut: Future<Output = Result<T, Failure>>,
{
    match breaker {
        Some(breaker) => breaker.guard(async { effect(op).await }).await,
        None => effect(op).await,
    }
}

/// The error of an effect that was not called, since its target was not reached shortly before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetAway {
    /// The time until it is worth calling again.
    pub retry_after: Duration,
}

impl TargetAway {
    pub(super) fn failure(self) -> Failure {
        let retry_after = self.retry_after;
        Failure::new(End::Away { retry_after }, self)
    }
}

impl fmt::Display for TargetAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the target of the effect is away; it was not called")
    }
}

impl Error for TargetAway {}

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
