//! The meaning of a sink's answer for its own message and for those behind it.

use semel_core::{Error, ErrorKind, Result};

/// The fate of a message that was handed to the sink.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is published.
    Sent,
    /// The sink takes no message now. Costs no attempt: an outage makes no dead letters.
    Away(Error),
    /// It failed, perhaps for the moment.
    Failed(Error),
    /// No try will succeed.
    Poison(Box<str>),
}

impl Verdict {
    /// Judges an answer. A message whose fate is unknown may be published again, since it has the same id then.
    pub(crate) fn of(answer: Result<()>) -> Self {
        let Err(error) = answer else {
            return Self::Sent;
        };
        match error.kind() {
            ErrorKind::Unavailable if semel_core::planted("X08") => Self::Sent,
            ErrorKind::InvalidInput => Self::Poison(one_line(&error)),
            ErrorKind::Unavailable
            | ErrorKind::Timeout
            | ErrorKind::Throttled
            | ErrorKind::InvalidConfig
            | ErrorKind::Unsupported => Self::Away(error),
            ErrorKind::ClaimLost
            | ErrorKind::Conflict
            | ErrorKind::Corrupt
            | ErrorKind::Poisoned
            | ErrorKind::Internal => Self::Failed(error),
        }
    }
}

/// Returns the words of an error as one bounded line.
pub(crate) fn one_line(error: &Error) -> Box<str> {
    let text = error.to_string();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MOST_CHARS).collect::<String>().into()
}

const MOST_CHARS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_costs_no_attempt_and_a_message_that_is_refused_is_poison() {
        for (kind, expected) in [
            (ErrorKind::InvalidInput, "Poison"),
            (ErrorKind::Unavailable, "Away"),
            (ErrorKind::Timeout, "Away"),
            (ErrorKind::Throttled, "Away"),
            (ErrorKind::InvalidConfig, "Away"),
            (ErrorKind::Internal, "Failed"),
            (ErrorKind::Conflict, "Failed"),
        ] {
            let verdict = Verdict::of(Err(Error::new(kind, "two\nlines")));
            assert!(format!("{verdict:?}").starts_with(expected), "{kind:?}");
            if let Verdict::Poison(words) = verdict {
                assert_eq!(&*words, "two lines");
            }
        }
        assert!(matches!(Verdict::of(Ok(())), Verdict::Sent));
    }
}
