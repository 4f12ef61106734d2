//! The findings that a pipeline accepts by name; without that, a run would be refused.

use std::str::FromStr;

use super::fields::Fields;
use super::refusal::Refusal;
use super::suggestion::suggestion;

/// The findings that a pipeline accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waived {
    /// Messages may come again after their keys are forgotten.
    pub window: bool,
    /// Other machines may send webhooks that nobody has signed.
    pub unverified: bool,
}

impl Waived {
    /// All names, as they are written.
    pub const NAMES: [&'static str; 2] = ["window-too-short", "webhook-unverified"];

    /// Returns the names of the accepted findings, as they are written.
    pub fn names(self) -> Vec<&'static str> {
        let Self { window, unverified } = self;
        let waived = Self::NAMES.into_iter().zip([window, unverified]);
        waived.filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }
}

impl FromStr for Waived {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        match text {
            "window-too-short" => Ok(Self {
                window: true,
                ..Self::default()
            }),
            "webhook-unverified" => Ok(Self {
                unverified: true,
                ..Self::default()
            }),
            _ => Err(format!("`{text}` is unknown; {}", suggestion(text, &Self::NAMES)).into()),
        }
    }
}

/// Reads `accept`.
pub(super) fn read(fields: &mut Fields<'_>) -> Waived {
    let waived = fields.words("accept", str::parse::<Waived>).into_iter();
    waived.fold(Waived::default(), |all, one| Waived {
        window: all.window || one.window,
        unverified: all.unverified || one.unverified,
    })
}
