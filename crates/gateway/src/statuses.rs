//! Sets of status codes, as settings name them: `2xx,3xx,404`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::http::StatusCode;

/// A set of status codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statuses(Vec<RangeInclusive<u16>>);

impl Statuses {
    /// The empty set.
    pub const NONE: Self = Self(Vec::new());

    /// The set of all codes of these classes, such as 2 for 2xx.
    pub fn of_classes(classes: impl IntoIterator<Item = u16>) -> Self {
        let ranges = classes
            .into_iter()
            .map(|class| class * 100..=class * 100 + 99);
        Self(ranges.collect())
    }

    /// Tells whether `status` is one of them.
    pub fn has(&self, status: StatusCode) -> bool {
        self.has_code(status.as_u16())
    }

    /// Tells whether the status of this number is one of them.
    pub(crate) fn has_code(&self, code: u16) -> bool {
        self.0.iter().any(|range| range.contains(&code))
    }

    /// Tells whether a code is named by itself, and not with its whole class.
    pub(crate) fn names(&self, status: u16) -> bool {
        self.0.contains(&(status..=status))
    }

    /// Tells whether all codes of a class, such as 2 for 2xx, are among them.
    pub(crate) fn has_class(&self, class: u16) -> bool {
        let (first, last) = (class * 100, class * 100 + 99);
        self.0
            .iter()
            .any(|range| *range.start() <= first && *range.end() >= last)
    }
}

/// Reads classes and codes, separated by commas; an empty text is the empty set.
impl FromStr for Statuses {
    type Err = InvalidStatuses;

    fn from_str(text: &str) -> Result<Self, InvalidStatuses> {
        let words = text.split(',').map(str::trim);
        let words = words.filter(|_| !text.trim().is_empty());
        words.map(range).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            let (start, end) = (range.start(), range.end());
            if start == end {
                write!(f, "{start}")?;
            } else {
                write!(f, "{}xx", start / 100)?;
            }
        }
        Ok(())
    }
}

/// The word that is neither a class nor a status code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidStatuses(Box<str>);

impl fmt::Display for InvalidStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(word) = self;
        write!(
            f,
            "`{word}` is neither a class such as 2xx nor a status code"
        )
    }
}

impl std::error::Error for InvalidStatuses {}

fn range(word: &str) -> Result<RangeInclusive<u16>, InvalidStatuses> {
    let invalid = || InvalidStatuses(word.into());
    if let Some(class) = word.strip_suffix("xx") {
        return match class {
            "2" | "3" | "4" | "5" => {
                let first: u16 = class.parse().map_err(|_| invalid())?;
                Ok(first * 100..=first * 100 + 99)
            }
            _ => Err(invalid()),
        };
    }
    let digits = word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    let code = word
        .parse()
        .ok()
        .filter(|code| digits && (200..600).contains(code));
    code.map(|code| code..=code).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_codes_are_read_and_written_alike() {
        let statuses: Statuses = "2xx, 3xx,404".parse().expect("statuses");
        let has = |code| statuses.has(StatusCode::from_u16(code).expect("a code"));
        for code in [200, 299, 300, 399, 404] {
            assert!(has(code), "{code}");
        }
        for code in [100, 199, 400, 403, 405, 500] {
            assert!(!has(code), "{code}");
        }
        assert_eq!(statuses.to_string(), "2xx,3xx,404");
        assert_eq!("".parse(), Ok(Statuses::NONE));
        assert!(statuses.has_class(2) && !statuses.has_class(4));
        assert!(statuses.names(404) && !statuses.names(200));
    }

    #[test]
    fn what_is_no_status_is_refused() {
        for text in [
            "2xx,", "1xx", "6xx", "2x", "99", "600", "+20", "2xx;3xx", "xx", "20x",
        ] {
            let refused = text.parse::<Statuses>();
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
    }
}
