//! Compares two outcomes of one operation.

use semel_core::Outcome;

/// The length and the digest of an outcome: what is compared, however long the outcome is and whether it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    len_bytes: u64,
    /// Zero of an empty outcome.
    digest: [u8; 32],
}

impl Measured {
    pub(crate) fn new(outcome: &Outcome) -> Self {
        let outcome = match outcome {
            Outcome::Kept { bytes, .. } => Outcome::raw(bytes.clone(), 0),
            Outcome::TooLarge { .. } => outcome.clone(),
        };
        match outcome {
            Outcome::Kept { .. } => Self {
                len_bytes: 0,
                digest: [0; 32],
            },
            Outcome::TooLarge { len_bytes, digest } => Self { len_bytes, digest },
        }
    }

    /// Tells whether this is another outcome than the one that is recorded.
    pub(crate) fn differs(&self, recorded: &Outcome) -> bool {
        match recorded {
            Outcome::Kept { bytes, .. } if bytes.len() as u64 != self.len_bytes => true,
            Outcome::Kept { .. } | Outcome::TooLarge { .. } => *self != Self::new(recorded),
        }
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
            let differ =
                |ended: &Outcome, recorded: &Outcome| Measured::new(ended).differs(recorded);
            assert!(!differ(&one("paid"), &other("paid")));
            assert!(differ(&one("paid"), &other("lost")));
            assert!(differ(&one("paid"), &other("declined")));
        }
        let empty = Measured::new(&Outcome::empty());
        assert!(!empty.differs(&Outcome::empty()));
        assert!(empty.differs(&kept("paid")) && empty.differs(&cut("paid")));
        assert!(Measured::new(&kept("paid")).differs(&Outcome::empty()));
    }
}
