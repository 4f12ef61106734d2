//! The separation of a payload into fields.

/// The way in which the fields of a payload are separated.
#[derive(Debug, Clone, Copy, Default)]
pub enum Fields<'a> {
    /// A tab stands between two of them.
    #[default]
    Tabs,
    /// This text, which is not empty, stands between two of them.
    Separated(&'a [u8]),
    /// Any number of spaces and tabs stand between two; those before the first separate nothing.
    Blanks,
    /// The caller has separated them already, as in CSV: `text` holds one behind the other.
    Cut {
        /// All of them.
        text: &'a [u8],
        /// The offsets in it at which they end.
        ends: &'a [usize],
    },
}

impl<'a> Fields<'a> {
    /// The field of this number, counted from zero.
    pub(super) fn nth(self, payload: &'a [u8], index: usize) -> Option<&'a [u8]> {
        match self {
            Self::Tabs => payload.split(|byte| *byte == b'\t').nth(index),
            Self::Separated([separator]) => payload.split(|byte| byte == separator).nth(index),
            Self::Separated(separator) => {
                let mut rest = payload;
                for _ in 0..index {
                    let at = position(rest, separator)?;
                    rest = &rest[at + separator.len()..];
                }
                Some(&rest[..position(rest, separator).unwrap_or(rest.len())])
            }
            Self::Blanks => payload
                .split(|byte| matches!(byte, b' ' | b'\t'))
                .filter(|field| !field.is_empty())
                .nth(index),
            Self::Cut { text, ends } => {
                let start = index
                    .checked_sub(1)
                    .map_or(Some(&0), |before| ends.get(before));
                text.get(*start?..*ends.get(index)?)
            }
        }
    }
}

/// The offset at which `wanted` begins in `text`.
fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut windows = text.windows(wanted.len().max(1));
    windows.position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_tells_fields_apart_in_its_way() {
        let cut = Fields::Cut {
            text: b"onetwo",
            ends: &[3, 3, 6],
        };
        for (fields, payload, expected) in [
            (
                Fields::Tabs,
                &b"a b\t\tc"[..],
                [Some(&b"a b"[..]), Some(b""), Some(b"c"), None],
            ),
            (
                Fields::Separated(b","),
                b"a,,c",
                [Some(b"a"), Some(b""), Some(b"c"), None],
            ),
            (
                Fields::Separated(b" "),
                b" a b",
                [Some(b""), Some(b"a"), Some(b"b"), None],
            ),
            (
                Fields::Separated("→".as_bytes()),
                "a→→c".as_bytes(),
                [Some(b"a"), Some(b""), Some(b"c"), None],
            ),
            (
                Fields::Blanks,
                b"  a \t b c\t",
                [Some(b"a"), Some(b"b"), Some(b"c"), None],
            ),
            (Fields::Blanks, b" \t", [None; 4]),
            (
                cut,
                b"not looked at",
                [Some(b"one"), Some(b""), Some(b"two"), None],
            ),
        ] {
            for (index, expected) in expected.into_iter().enumerate() {
                assert_eq!(fields.nth(payload, index), expected, "{fields:?} {index}");
            }
        }
    }
}
