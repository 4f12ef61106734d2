//! `[console]`: the parts of messages that the console and the admin API show.

use semel_core::json::{HiddenMember, Mask};

use super::fields::Fields;

/// The payloads that callers of the admin API and readers of the console see.
#[derive(Clone, Debug, Default)]
pub struct ConsoleSettings {
    /// The members that nobody sees.
    pub mask: Mask,
    /// True if payloads are shown to viewers as well.
    pub viewers_see_payloads: bool,
}

/// Reads `[console]`.
pub(super) fn read(fields: &mut Fields<'_>) -> ConsoleSettings {
    let Some(mut table) = fields.optional_sub("console") else {
        return ConsoleSettings::default();
    };
    let mask = table.words("mask", |text| {
        let member = text.parse::<HiddenMember>();
        member.map_err(|error| error.to_string())
    });
    let viewers_see_payloads = table.boolean_or("viewers_see_payloads", false);
    table.finish();
    ConsoleSettings {
        mask: mask.into_iter().collect(),
        viewers_see_payloads,
    }
}

#[cfg(test)]
mod tests;
