//! The failure of an effect, and the certainty about it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::effect::Verdict;

/// The reason why an effect has no result, and whether it may have happened all the same.
///
/// Any error converts into *maybe applied*, so that `?` is never optimistic. An effect that knows better says
/// so: [`Failure::not_applied`], [`Failure::away`], [`Failure::dead`].
///
/// ```
/// use semel_engine::once::Failure;
///
/// # async fn connect() -> std::io::Result<()> { Ok(()) }
/// # async fn send() -> std::io::Result<u64> { Ok(1) }
/// async fn charge(cents: u64) -> Result<u64, Failure> {
///     if cents == 0 {
///         return Err(Failure::dead("an amount of zero cannot be charged"));
///     }
///     connect().await.map_err(Failure::not_applied)?; // nothing was sent yet
///     Ok(send().await?) // sent, and nobody knows what became of it
/// }
/// ```
///
/// The text of the error becomes the record's last error: it should hold no secret.
pub struct Failure {
    pub(super) end: End,
    pub(super) cause: Box<dyn Error + Send + Sync>,
}

/// The kind of a failure, by the certainty that it gives about the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It surely did not happen; another attempt may follow.
    NotApplied { retry_after: Option<Duration> },
    /// Nobody knows.
    MaybeApplied,
    /// This attempt surely did not apply it, and no other would.
    Dead { decisive: bool },
    /// It was never begun; costs no attempt.
    GivenBack,
    /// The target was not reached, and another call would not reach it either; costs no attempt.
    Away { retry_after: Duration },
}

impl Failure {
    /// Returns a failure of an effect that surely did not happen: another attempt may follow, whatever the
    /// class.
    pub fn not_applied(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(End::NotApplied { retry_after: None }, cause)
    }

    /// Returns the failure of a target that was not reached at all: nothing was begun, and any other call would
    /// end the same way. Costs no attempt. A consumer waits for the target; so does an operation with an
    /// [`EffectBreaker`](super::EffectBreaker).
    pub fn away(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let retry_after = AWAY;
        Self::new(End::Away { retry_after }, cause)
    }

    pub(super) const fn is_away(&self) -> bool {
        matches!(self.end, End::Away { .. })
    }

    /// Returns a failure that leaves open whether the effect happened: the class decides.
    pub fn maybe_applied(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(End::MaybeApplied, cause)
    }

    /// Returns a failure of an attempt that surely did not apply the effect, as no other would: none follows.
    ///
    /// The failure speaks for this attempt alone. If an earlier one may have applied the effect, the operation
    /// is in doubt, unless the failure is [`decisive`](Self::decisive).
    pub fn dead(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(End::Dead { decisive: false }, cause)
    }

    /// Makes the failure speak for the earlier attempts as well. True only of an answer from behind the
    /// provider's own look-up of the key, such as the stored answer to the first attempt. Counts only if the
    /// effect is dead.
    #[must_use]
    pub fn decisive(mut self) -> Self {
        if let End::Dead { decisive } = &mut self.end {
            *decisive = true;
        }
        self
    }

    /// Sets the time that the effect asks to wait before the next attempt. Counts only if the effect was not
    /// applied.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        if let End::NotApplied { retry_after } = &mut self.end {
            *retry_after = Some(after);
        }
        self
    }

    /// Returns the cause.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }

    pub(super) fn new(end: End, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            end,
            cause: cause.into(),
        }
    }

    /// Returns the failure as the verdict of a consumer's effect.
    pub(crate) fn into_verdict(self) -> Verdict {
        self.verdict()
    }

    /// Returns what the failure says as the verdict of a consumer's effect.
    pub(super) fn verdict(&self) -> Verdict {
        let error = self.line();
        match self.end {
            End::NotApplied { retry_after } => Verdict::NotApplied { error, retry_after },
            End::GivenBack => Verdict::NotApplied {
                error,
                retry_after: None,
            },
            End::Away { .. } => Verdict::Away { error },
            End::MaybeApplied => Verdict::MaybeApplied { error },
            End::Dead { decisive } => Verdict::Dead { error, decisive },
        }
    }

    /// Returns the error and its sources in one line, as the record keeps it.
    pub(super) fn line(&self) -> Box<str> {
        line(&*self.cause)
    }
}

/// Returns an error and its sources in one line, of which the beginning is kept if it is long.
pub(super) fn line(error: &(dyn Error + 'static)) -> Box<str> {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        // Many errors repeat their source in their own text.
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        source = cause.source();
    }
    let mut line = line.replace(|c: char| c.is_control(), " ");
    if let Some((end, _)) = line.char_indices().nth(MAX_LINE_CHARS) {
        line.truncate(end);
    }
    line.into()
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    /// Converts an error into a failure that is maybe applied.
    fn from(error: E) -> Self {
        if semel_core::planted("O07") {
            return Self::not_applied(error);
        }
        Self::maybe_applied(error)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("end", &self.end)
            .field("cause", &self.cause)
            .finish()
    }
}

/// The cause of an effect that panicked. The panic itself went to the panic hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the effect panicked")
    }
}

impl Error for Panicked {}

/// The cause of an effect that did not end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut {
    /// The effect's time limit.
    pub limit: Duration,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the effect did not end within {:?}", self.limit)
    }
}

impl Error for TimedOut {}

/// The cause of an effect that was dropped before it ended: its runtime shut down, or it ran in the caller's own
/// task and the caller went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the effect was dropped before it ended")
    }
}

impl Error for Dropped {}

/// The time after which a target that was not reached is worth another try.
const AWAY: Duration = Duration::from_millis(200);
/// The most characters of an error's text that a record keeps.
const MAX_LINE_CHARS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("charging\nfailed")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_that_says_nothing_of_the_effect_is_maybe_applied() {
        let failure = Failure::from(std::io::Error::other("broken pipe"));
        assert_eq!(failure.end, End::MaybeApplied);
    }

    #[test]
    fn a_failure_is_kept_as_one_line_with_its_sources() {
        let failure = Failure::from(Outer(std::io::Error::other("broken pipe")));
        assert_eq!(&*failure.line(), "charging failed: broken pipe");
        let long = Failure::dead("ü".repeat(5_000));
        assert_eq!(long.line().chars().count(), MAX_LINE_CHARS);
    }

    #[test]
    fn a_wish_when_to_retry_counts_only_where_a_retry_is_certain() {
        let after = Duration::from_secs(9);
        let failure = Failure::not_applied("busy").retry_after(after);
        let retry_after = Some(after);
        assert_eq!(failure.end, End::NotApplied { retry_after });
        let dead = Failure::dead("no").retry_after(after);
        assert_eq!(dead.end, End::Dead { decisive: false });
    }

    #[test]
    fn a_failure_speaks_for_earlier_attempts_only_where_it_says_so_and_is_final() {
        let dead = Failure::dead("declined").decisive();
        assert_eq!(dead.end, End::Dead { decisive: true });
        let failure = Failure::maybe_applied("no answer").decisive();
        assert_eq!(failure.end, End::MaybeApplied);
    }
}
