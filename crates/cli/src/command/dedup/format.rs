//! Decides how the input is cut into records, and which part of a record is the key.

use std::fmt::Write;
use std::num::NonZeroUsize;

use semel_core::key::KeySelector;
use semel_core::select::Selector;
use semel_core::{Error, ErrorKind, Result};
use semel_engine::summary::{Fate, Summary};
use semel_worker::dedup::{Csv, Format, Input, Separator};

use crate::args::{self, KeyPart};

/// Takes the format from the arguments and checks it against the key; reads nothing.
pub(super) fn format(arguments: &args::Dedup) -> Result<Format> {
    let parts = &arguments.key;
    let is_any = |wanted: fn(&KeyPart) -> bool| parts.iter().any(wanted);
    for part in parts {
        match part {
            KeyPart::Selector(header @ Selector::Header(_)) => {
                return Err(usage(format!("--key {header}: lines have no headers")));
            }
            KeyPart::Selector(json @ (Selector::Json(_) | Selector::CloudEvents))
                if arguments.csv =>
            {
                let message =
                    format!("--key {json}: CSV is no JSON; name a `column:NAME` or `field:N`");
                return Err(usage(message));
            }
            KeyPart::Column(name) if !arguments.csv || arguments.no_header => {
                let message = format!(
                    "--key column:{name}: only --csv with a header names columns; count them as `field:N`"
                );
                return Err(usage(message));
            }
            KeyPart::Selector(_) | KeyPart::Column(_) => {}
        }
    }
    if arguments.csv {
        return Ok(Format::Csv(Csv {
            delimiter: byte(arguments.delimiter.as_ref())?,
            has_header: !arguments.no_header,
        }));
    }
    let takes_fields = is_any(|part| matches!(part, KeyPart::Selector(Selector::Field(_))));
    if arguments.delimiter.is_some() && !takes_fields {
        let message =
            "--delimiter: it stands between fields, of which no --key names one; add --key field:N";
        return Err(usage(message.to_owned()));
    }
    let separator = arguments.delimiter.clone();
    Ok(Format::Lines(separator.unwrap_or(Separator::Tab)))
}

/// The delimiter of CSV as a byte.
fn byte(delimiter: Option<&Separator>) -> Result<u8> {
    match delimiter {
        None => Ok(b','),
        Some(Separator::Tab) => Ok(b'\t'),
        Some(Separator::Text(text)) if text.is_ascii() && !matches!(&**text, "\"" | "\r") => {
            Ok(text.bytes().next().unwrap_or(b','))
        }
        Some(Separator::Text(_) | Separator::Blanks) => {
            let message =
                "--delimiter: with --csv it is one ASCII character, as in --delimiter ';'";
            Err(usage(message.to_owned()))
        }
    }
}

/// The key; reads the header of `input` first if there is one.
pub(super) fn key(
    arguments: &args::Dedup,
    format: &Format,
    input: &mut Input,
) -> Result<KeySelector> {
    let names = match format {
        Format::Csv(csv) if csv.has_header => input.read_header(csv)?,
        Format::Csv(_) | Format::Lines(_) => Vec::new(),
    };
    let selectors = arguments.key.iter().map(|part| match part {
        KeyPart::Selector(selector) => Ok(selector.clone()),
        // There are no columns at all, so no record will ask for one.
        KeyPart::Column(_) if names.is_empty() => Ok(Selector::Field(NonZeroUsize::MIN)),
        KeyPart::Column(name) => column(name, &names).map(Selector::Field),
    });
    KeySelector::try_from(selectors.collect::<Result<Vec<_>>>()?)
        .map_err(|error| usage(format!("--key: {error}")))
}

fn column(wanted: &str, names: &[String]) -> Result<NonZeroUsize> {
    let mut numbers = (1..).zip(names).filter(|(_, name)| *name == wanted);
    let number = numbers
        .next()
        .and_then(|(number, _)| NonZeroUsize::new(number));
    match (number, numbers.next()) {
        (Some(number), None) => Ok(number),
        (Some(_), Some(_)) => Err(usage(format!(
            "--key column:{wanted}: the header names it twice; count columns as `field:N`"
        ))),
        (None, _) => {
            let mut message =
                format!("--key column:{wanted}: the header has no such column; it has");
            for (at, name) in names.iter().take(MOST_NAMES).enumerate() {
                let comma = if at == 0 { "" } else { "," };
                // Writing to a string cannot fail.
                let _ = write!(message, "{comma} {name}");
            }
            if names.len() > MOST_NAMES {
                message.push_str(", …");
            }
            Err(usage(message))
        }
    }
}

/// Explains why no line of a run had a key, if that is so.
pub(super) fn without_keys(
    arguments: &args::Dedup,
    format: &Format,
    summary: &Summary,
) -> Option<String> {
    let count = summary.of(Fate::Quarantined);
    if count == 0 || count < summary.deliveries() {
        return None;
    }
    let mut message = if count == 1 {
        "the only line had no usable key".to_owned()
    } else {
        format!("none of {count} lines had a usable key")
    };
    let parts = arguments.key.iter().map(|part| match part {
        KeyPart::Selector(selector) => selector.to_string(),
        KeyPart::Column(name) => format!("column:{name}"),
    });
    let parts: Vec<_> = parts.collect();
    let _ = write!(message, ": --key {}", parts.join(" --key "));
    let is_field = |part: &KeyPart| matches!(part, KeyPart::Selector(Selector::Field(_)));
    if arguments.key.iter().any(is_field) {
        message.push_str(match format {
            Format::Lines(Separator::Tab) if arguments.delimiter.is_none() => {
                "; fields are between tabs, unless --delimiter or --csv says otherwise"
            }
            Format::Lines(_) | Format::Csv(_) => "; is --delimiter the right one?",
        });
    }
    Some(message)
}

fn usage(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

/// The number of column names that a message lists.
const MOST_NAMES: usize = 20;
