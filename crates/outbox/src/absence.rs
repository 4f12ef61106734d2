//! The absence of what a relay needs: the pauses between the tries, and how long it lasts.

use std::time::Duration;

use semel_core::{Advice, Backoff, Error};

/// The absence of the outbox or of the sink.
#[derive(Debug, Default)]
pub(crate) struct Absence {
    /// The time since which it is away, and the tries since.
    since: Option<(Duration, u32)>,
}

impl Absence {
    /// Notes another failure; returns whether it is the first, and the pause.
    pub(crate) fn again(&mut self, now: Duration, error: &Error) -> (bool, Duration) {
        let is_new = self.since.is_none();
        let (_, tries) = self.since.get_or_insert((now, 0));
        *tries = tries.saturating_add(1);
        let wish = if semel_core::planted("X05") {
            Duration::ZERO
        } else {
            wish(error).min(LONGEST_WISH)
        };
        (is_new, AWAY.after(*tries).max(wish))
    }

    /// Tells whether it is away.
    pub(crate) const fn is_away(&self) -> bool {
        self.since.is_some()
    }

    /// Notes its end; returns how long it lasted, if there was one.
    pub(crate) fn ended(&mut self, now: Duration) -> Option<Duration> {
        let (since, _) = self.since.take()?;
        Some(now.saturating_sub(since))
    }
}

/// Tells whether repeating a call of the outbox may succeed. All of them may be repeated, whatever became of the first.
pub(crate) fn is_passing(error: &Error) -> bool {
    match error.advice() {
        Advice::Retry { .. } | Advice::LookUpFirst => true,
        Advice::Fix | Advice::Stop | Advice::Alarm => false,
    }
}

/// Returns the time for which whoever failed asks to be left alone.
pub(crate) fn wish(error: &Error) -> Duration {
    match error.advice() {
        Advice::Retry { after } => after,
        Advice::Fix | Advice::LookUpFirst | Advice::Stop | Advice::Alarm => Duration::ZERO,
    }
}

/// The pauses between the tries of an outbox or a sink that is away.
const AWAY: Backoff = Backoff {
    first: Duration::from_millis(100),
    most: Duration::from_secs(5),
};

/// The longest pause of everything that one message can bring about. One that asks for more waits alone.
pub(crate) const LONGEST_WISH: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use semel_core::ErrorKind;

    use super::*;

    #[test]
    fn a_wish_for_a_longer_pause_is_granted_up_to_a_minute() {
        let seconds = Duration::from_secs;
        let mut absence = Absence::default();
        let busy = |after| Error::new(ErrorKind::Throttled, "busy").retry_after(seconds(after));
        assert_eq!(absence.again(seconds(1), &busy(30)), (true, seconds(30)));
        assert_eq!(
            absence.again(seconds(2), &busy(86_400)),
            (false, seconds(60))
        );
        let away = Error::new(ErrorKind::Unavailable, "away");
        for now in 3..20 {
            assert!(absence.again(seconds(now), &away).1 <= seconds(5));
        }
        assert_eq!(absence.ended(seconds(21)), Some(seconds(20)));
    }
}
