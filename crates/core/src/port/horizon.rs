//! The time for which a message can come again, as far as its broker tells. The window has to be longer.
//! Not for judging a window: that is up to the caller that knows it.

use std::time::Duration;

use crate::time::Timestamp;

/// The findings about one source. Each adapter has a function that looks at its live broker and changes
/// nothing there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HorizonReport {
    /// The time, after the broker took a message in, during which it can be delivered again unasked:
    /// after a crash, a rebalance, or an absence of all consumers.
    pub redelivery: Horizon,
    /// The time, after the broker took a message in, during which an operator can set the source back so
    /// that it is delivered again.
    pub replay: Horizon,
    /// True if the broker says of every message when it took it in; the age gate then uses that time.
    pub is_stamped: bool,
    /// The time at which the broker took in the oldest message that it still has; none if it has none, or
    /// does not say.
    pub oldest: Option<Timestamp>,
    /// The number of deliveries after which the broker gives a message up, settled or not.
    pub deliveries: Option<u32>,
    /// The time for which the broker leaves a delivery unacknowledged, even if it is extended.
    pub hold: Option<Duration>,
    /// The facts on which all of this rests.
    pub facts: Vec<Fact>,
    /// The settings that could not be read.
    pub unread: Vec<Unread>,
    /// Warnings about the broker's settings for the operator, a sentence each.
    pub warnings: Vec<Box<str>>,
}

impl HorizonReport {
    /// A report of which nothing is known.
    pub const fn unknown() -> Self {
        Self {
            redelivery: Horizon::Unknown,
            replay: Horizon::Unknown,
            is_stamped: false,
            oldest: None,
            deliveries: None,
            hold: None,
            facts: Vec::new(),
            unread: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds a fact.
    pub fn fact(&mut self, name: &str, value: impl Into<Box<str>>, meaning: impl Into<Box<str>>) {
        self.facts.push(Fact {
            name: name.into(),
            value: value.into(),
            meaning: meaning.into(),
        });
    }

    /// Adds a setting that could not be read.
    pub fn unread(&mut self, name: &str, why: impl Into<Box<str>>) {
        self.unread.push(Unread {
            name: name.into(),
            why: why.into(),
        });
    }
}

/// A length of time after a message was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// No longer than this.
    Within(Duration),
    /// Without end, as far as the broker is concerned.
    Endless,
    /// It could not be read.
    Unknown,
}

impl Horizon {
    /// The farther one. An unknown horizon may lie beyond any length, but not beyond an endless one.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        match (self, other) {
            (Self::Endless, _) | (_, Self::Endless) => Self::Endless,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Within(one), Self::Within(other)) => Self::Within(one.max(other)),
        }
    }

    /// The horizon that is later by `more`.
    #[must_use]
    pub const fn plus(self, more: Duration) -> Self {
        match self {
            Self::Within(length) => Self::Within(length.saturating_add(more)),
            Self::Endless | Self::Unknown => self,
        }
    }
}

/// A setting of the broker that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The broker's name for it.
    pub name: Box<str>,
    /// The value, for people.
    pub value: Box<str>,
    /// The consequence, one clause.
    pub meaning: Box<str>,
}

/// A setting that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The broker's name for it.
    pub name: Box<str>,
    /// The reason, one clause.
    pub why: Box<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn within(secs: u64) -> Horizon {
        Horizon::Within(Duration::from_secs(secs))
    }

    #[test]
    fn the_farther_of_two_horizons_is_never_a_guess() {
        for (one, other, farther) in [
            (within(1), within(2), within(2)),
            (within(1), Horizon::Unknown, Horizon::Unknown),
            (within(1), Horizon::Endless, Horizon::Endless),
            (Horizon::Unknown, Horizon::Unknown, Horizon::Unknown),
            (Horizon::Unknown, Horizon::Endless, Horizon::Endless),
            (Horizon::Endless, Horizon::Endless, Horizon::Endless),
        ] {
            assert_eq!(one.max(other), farther, "{one:?} {other:?}");
            assert_eq!(other.max(one), farther, "{other:?} {one:?}");
        }
    }

    #[test]
    fn what_is_found_and_what_cannot_be_read_are_told_apart() {
        let mut horizons = HorizonReport::unknown();
        horizons.fact("retention", "7d", "how long a message stays");
        horizons.unread("max_deliver", "not permitted");
        let fact = Fact {
            name: "retention".into(),
            value: "7d".into(),
            meaning: "how long a message stays".into(),
        };
        assert_eq!(horizons.facts, [fact]);
        let unread = Unread {
            name: "max_deliver".into(),
            why: "not permitted".into(),
        };
        assert_eq!(horizons.unread, [unread]);
    }

    #[test]
    fn only_what_has_an_end_moves() {
        let minute = Duration::from_secs(60);
        assert_eq!(within(1).plus(minute), within(61));
        assert_eq!(
            Horizon::Within(Duration::MAX).plus(minute),
            Horizon::Within(Duration::MAX)
        );
        assert_eq!(Horizon::Endless.plus(minute), Horizon::Endless);
        assert_eq!(Horizon::Unknown.plus(minute), Horizon::Unknown);
    }
}
