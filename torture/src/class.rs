//! Classes of effects, each with an API that it is right for.

use crate::api::Temper;

/// The class of effects, with an API that it is right for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `unkeyed`, `park`
    Park,
    /// `unkeyed`, `repeat`
    Repeat,
    /// `keyed`
    Keyed,
}

impl Class {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Park => "park",
            Self::Repeat => "repeat",
            Self::Keyed => "keyed",
        }
    }

    pub(crate) fn lines(self) -> &'static str {
        match self {
            Self::Park => "class = \"unkeyed\"\non_doubt = \"park\"\n",
            Self::Repeat => "class = \"unkeyed\"\non_doubt = \"repeat\"\n",
            Self::Keyed => "class = \"keyed\"\nprovider_window = \"24h\"\n",
        }
    }

    pub(crate) fn temper(self) -> Temper {
        match self {
            Self::Park => Temper::Declining,
            Self::Repeat => Temper::Moody,
            Self::Keyed => Temper::Keyed,
        }
    }
}
