//! Compares two outcomes of one operation.

use semel_core::Outcome;

/// Tells whether an effect ended with another outcome than the one that is recorded. Of one that was too long to be
/// kept, length and digest are compared.
pub(crate) fn differ(ended: &Outcome, recorded: &Outcome) -> bool {
    match (ended, recorded) {
        (Outcome::Kept { bytes, .. }, Outcome::TooLarge { .. }) => {
            Outcome::raw(bytes.clone(), 0) != *recorded
        }
        (Outcome::TooLarge { .. }, Outcome::Kept { bytes, .. }) => {
            Outcome::raw(bytes.clone(), 0) != *ended
        }
        (Outcome::Kept { .. }, Outcome::Kept { .. })
        | (Outcome::TooLarge { .. }, Outcome::TooLarge { .. }) => ended != recorded,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn kept(text: &'static str) -> Outcome {
        Outcome::raw(Bytes::from_static(text.as_bytes()), 100)
    }

    fn cut(text: &'static str) -> Outcome {
        Outcome::raw(Bytes::from_static(text.as_bytes()), 0)
    }

    #[test]
    fn outcomes_are_compared_whether_they_were_kept_or_not() {
        for (one, other) in [
            (kept as fn(_) -> _, kept as fn(_) -> _),
            (kept, cut),
            (cut, kept),
            (cut, cut),
        ] {
            assert!(!differ(&one("paid"), &other("paid")));
            assert!(differ(&one("paid"), &other("declined")));
        }
        assert!(!differ(&Outcome::empty(), &Outcome::empty()));
        assert!(differ(&Outcome::empty(), &kept("paid")));
    }
}
