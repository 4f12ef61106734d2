//! JSON strings: their texts, and how to write them with as few escapes as possible.

use super::scan::plain_run;

/// Resolves the escapes of a string that the scanner found valid.
pub(super) fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let (character, length) = resolve(escape);
        text.push(character);
        rest = &escape[length..];
    }
    text + rest
}

/// The character of the escape that `escape` begins with, after its backslash, and its length.
fn resolve(escape: &str) -> (char, usize) {
    let character = match escape.as_bytes() {
        [b'b', ..] => '\u{8}',
        [b'f', ..] => '\u{C}',
        [b'n', ..] => '\n',
        [b'r', ..] => '\r',
        [b't', ..] => '\t',
        [b'u', ..] => {
            let high = unit(escape, 1);
            // A surrogate is followed by `\u` and its other half.
            let (code, length) = match high {
                0xD800..=0xDFFF => (
                    0x1_0000 + ((high & 0x3FF) << 10 | unit(escape, 7) & 0x3FF),
                    11,
                ),
                _ => (high, 5),
            };
            return (
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
                length,
            );
        }
        [itself, ..] => char::from(*itself),
        [] => char::REPLACEMENT_CHARACTER,
    };
    (character, 1)
}

fn unit(escape: &str, at: usize) -> u32 {
    let digits = escape.get(at..at + 4).unwrap_or_default();
    u32::from_str_radix(digits, 16).unwrap_or_default()
}

/// Appends `text` as a JSON string, with as few escapes as possible.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(plain_run(rest));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else {
            break;
        };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let [high, low] = [byte >> 4, byte & 0xF].map(|half| HEX[usize::from(half)]);
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            }
        }
        rest = after;
    }
    out.push(b'"');
}

const HEX: &[u8; 16] = b"0123456789abcdef";
