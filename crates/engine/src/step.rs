//! Steps that claims report once their attempt has ended.

use std::time::Duration;

use semel_core::claim::AttemptLimits;
use semel_core::{Certainty, Outcome, Step, Window};

/// The end of an attempt, as far as its record is concerned.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The effect happened.
    Done(Outcome),
    /// It surely did not happen; the effect may ask for a time to wait.
    NotApplied {
        error: Box<str>,
        retry_after: Option<Duration>,
    },
    /// It did not succeed, and asks for no time to wait.
    Failed {
        error: Box<str>,
        certainty: Certainty,
    },
    /// It surely did not happen, and would not by another attempt either.
    Dead { error: Box<str>, decisive: bool },
}

/// The terms of an attempt, which go into its report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) window: Window,
    pub(crate) limits: AttemptLimits,
    /// The wait before the next attempt, if the effect asks for none.
    pub(crate) backoff: Duration,
    /// The attempt counts; one that is given back does not.
    pub(crate) counted: bool,
}

/// Returns the step that reports the end of an attempt. An attempt that does not count gives
/// nothing up.
pub(crate) fn step_of(ended: Ended, terms: Terms) -> Step {
    let Terms {
        window,
        limits,
        backoff,
        counted,
    } = terms;
    let release = |error, certainty, after| Step::Release {
        error,
        certainty,
        after,
        counted,
        limits,
        window,
    };
    match ended {
        Ended::Done(outcome) => Step::Complete { outcome, window },
        Ended::NotApplied { error, retry_after } => {
            release(error, Certainty::NotApplied, wait(retry_after, backoff))
        }
        Ended::Failed { error, certainty } => release(error, certainty, backoff),
        Ended::Dead { error, .. } if !counted => release(error, Certainty::NotApplied, backoff),
        Ended::Dead { error, decisive } => Step::Fail {
            error,
            decisive,
            window,
        },
    }
}

/// Returns the wait before an effect is tried again: the time that it asks for, or the backoff.
pub(crate) fn wait(retry_after: Option<Duration>, backoff: Duration) -> Duration {
    retry_after.unwrap_or(backoff).min(LONGEST_WAIT)
}

/// The longest wait that an effect may ask for before it is tried again: thirty days.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Duration = Duration::from_millis(200);

    fn step(ended: Ended, counted: bool) -> Step {
        let terms = Terms {
            window: Window::DEFAULT,
            limits: AttemptLimits::default(),
            backoff: BACKOFF,
            counted,
        };
        step_of(ended, terms)
    }

    fn released(certainty: Certainty, after: Duration, counted: bool) -> Step {
        Step::Release {
            error: "no".into(),
            certainty,
            after,
            counted,
            limits: AttemptLimits::default(),
            window: Window::DEFAULT,
        }
    }

    fn not_applied(retry_after: Option<Duration>) -> Ended {
        let error = "no".into();
        Ended::NotApplied { error, retry_after }
    }

    #[test]
    fn a_success_is_completed_whether_or_not_its_attempt_counts() {
        for counted in [true, false] {
            let outcome = Outcome::empty();
            let window = Window::DEFAULT;
            let done = step(Ended::Done(outcome.clone()), counted);
            assert_eq!(done, Step::Complete { outcome, window });
        }
    }

    #[test]
    fn what_was_not_applied_waits_as_long_as_it_wishes_but_not_for_ever() {
        let minute = Duration::from_secs(60);
        for (wish, after) in [
            (None, BACKOFF),
            (Some(Duration::ZERO), Duration::ZERO),
            (Some(minute), minute),
            (Some(LONGEST_WAIT), LONGEST_WAIT),
            (Some(LONGEST_WAIT + minute), LONGEST_WAIT),
            (Some(Duration::MAX), LONGEST_WAIT),
        ] {
            for counted in [true, false] {
                let expected = released(Certainty::NotApplied, after, counted);
                assert_eq!(step(not_applied(wish), counted), expected);
            }
        }
    }

    #[test]
    fn a_failure_is_as_certain_as_it_says() {
        for certainty in [Certainty::NotApplied, Certainty::MaybeApplied] {
            for counted in [true, false] {
                let error = "no".into();
                let failed = step(Ended::Failed { error, certainty }, counted);
                assert_eq!(failed, released(certainty, BACKOFF, counted));
            }
        }
    }

    #[test]
    fn only_an_attempt_that_counts_gives_its_operation_up() {
        for decisive in [true, false] {
            let error: Box<str> = "no".into();
            let window = Window::DEFAULT;
            let dead = |error| Ended::Dead { error, decisive };
            let given_back = released(Certainty::NotApplied, BACKOFF, false);
            assert_eq!(step(dead(error.clone()), false), given_back);
            let given_up = step(dead(error.clone()), true);
            let failed = Step::Fail {
                error,
                decisive,
                window,
            };
            assert_eq!(given_up, failed);
        }
    }
}
