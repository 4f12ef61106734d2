//! Parses values as they are typed.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use semel_core::Key;

/// Reads one of these words, each with its help, as what it stands for.
pub(super) fn one_of<T>(
    words: &'static [(&'static str, &'static str, T)],
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let values = words.iter();
    let values = values.map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values).try_map(move |typed| {
        let found = words.iter().find(|(word, ..)| *word == typed);
        found.map(|(.., meant)| *meant).ok_or("no such word")
    })
}

/// Parses a KEY as it is typed: a text is a string, `json:` and JSON is typed. Fit for clap.
///
/// # Errors
///
/// What is wrong with it, in words
pub fn key(text: &str) -> Result<Key, String> {
    Key::parse(text)
        .map_err(|error| format!("{error}; a string is written as it is, a number as json:1"))
}

/// Parses an id of a replay as it is typed. Fit for clap.
pub(super) fn replay_id(text: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
    if text.trim().is_empty() || text.len() > MOST_BYTES || !text.chars().all(is_plain) {
        return Err("wanted are 1 to 255 printable ASCII characters, which name this replay");
    }
    Ok(text.to_owned())
}

/// The length limit of the id of a replay.
const MOST_BYTES: usize = 255;
