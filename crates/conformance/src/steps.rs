//! The reports of a claim, with the settings that most cases share.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use semel_core::{AttemptLimits, Certainty, Outcome, Recovery, Step, Window};

/// The window of records in cases that are not about windows.
pub const LONG_WINDOW: Window = Window::new(Duration::from_secs(3_600));

/// An outcome of these bytes.
pub fn outcome(bytes: impl Into<Bytes>) -> Outcome {
    Outcome::Kept {
        codec: 0,
        bytes: bytes.into(),
    }
}

/// A start.
pub const fn start(recovery: Recovery) -> Step {
    Step::Start {
        recovery,
        has_begun: false,
    }
}

/// The report that the effect began before it was marked.
pub const fn late_start(recovery: Recovery) -> Step {
    Step::Start {
        recovery,
        has_begun: true,
    }
}

/// A completion with these bytes, to be kept for an hour.
pub fn complete(bytes: impl Into<Bytes>) -> Step {
    complete_for(bytes, LONG_WINDOW)
}

/// A completion with these bytes, to be kept for `window`.
pub fn complete_for(bytes: impl Into<Bytes>, window: Window) -> Step {
    Step::Complete {
        outcome: outcome(bytes),
        window,
    }
}

/// A counted release after an effect that surely did not happen, without backoff.
pub fn release() -> Step {
    release_after(Duration::ZERO)
}

/// The same with a backoff.
pub fn release_after(after: Duration) -> Step {
    Step::Release {
        error: "503 from the provider".into(),
        certainty: Certainty::NotApplied,
        after,
        counted: true,
        limits: limits_of(5, 20),
        window: LONG_WINDOW,
    }
}

/// A counted release after an effect that may have happened.
pub fn release_unsure() -> Step {
    Step::Release {
        error: "no answer from the provider".into(),
        certainty: Certainty::MaybeApplied,
        after: Duration::ZERO,
        counted: true,
        limits: limits_of(5, 20),
        window: LONG_WINDOW,
    }
}

/// Work given back at shutdown.
pub fn give_back() -> Step {
    with(release(), |_, counted| *counted = false)
}

/// The same release with a cap on failed attempts.
#[must_use]
pub fn capped(step: Step, failed: u32) -> Step {
    with(step, |limits, _| {
        limits.failed = limits_of(failed, 1).failed;
    })
}

/// A failure for good.
pub fn fail() -> Step {
    fail_for(LONG_WINDOW)
}

/// A failure for good that speaks for the earlier attempts as well.
pub fn fail_decisively() -> Step {
    Step::Fail {
        error: "the provider's stored answer: 402".into(),
        decisive: true,
        window: LONG_WINDOW,
    }
}

/// A failure for good, to be kept for `window`. It speaks only for its own attempt.
pub fn fail_for(window: Window) -> Step {
    Step::Fail {
        error: "400 from the provider".into(),
        decisive: false,
        window,
    }
}

/// Caps on attempts; a zero counts as one.
pub fn limits_of(failed: u32, vanished: u32) -> AttemptLimits {
    let at_least_one = |count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
    AttemptLimits {
        failed: at_least_one(failed),
        vanished: at_least_one(vanished),
    }
}

fn with(mut step: Step, change: impl FnOnce(&mut AttemptLimits, &mut bool)) -> Step {
    if let Step::Release {
        limits, counted, ..
    } = &mut step
    {
        change(limits, counted);
    }
    step
}
