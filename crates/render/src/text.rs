//! Fits text to a terminal: measures it, cuts it to a width, and escapes characters that move the cursor or
//! hide what stands there.

use std::borrow::Cow;
use std::fmt::Write;

use semel_core::json::write_string;
use semel_operate::terminal::is_unsafe;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns the text with every character escaped that a terminal would obey or hide.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    escaped_but(text, |_| false)
}

/// Returns the same, but keeps these characters.
pub(super) fn escaped_but(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_unsafe = |c: char| !is_kept(c) && is_unsafe(c);
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Returns the text of a key as it is shown and typed: the key itself or, if some of it could not be seen,
/// `json:` and its JSON literal with those characters escaped. Both are read back as the same key.
pub fn key_text(key: &str) -> Cow<'_, str> {
    let is_hidden = key.contains(is_unsafe)
        || key.is_empty()
        || key.starts_with(char::is_whitespace)
        || key.ends_with(char::is_whitespace);
    if !is_hidden {
        return Cow::Borrowed(key);
    }
    let typed = if key.starts_with(TYPED) {
        key.to_owned()
    } else {
        let mut literal = Vec::from(TYPED);
        write_string(key, &mut literal);
        String::from_utf8_lossy(&literal).into_owned()
    };
    let mut shown = String::with_capacity(typed.len() + 8);
    for c in typed.chars() {
        if is_unsafe(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The number of columns that an escaped text occupies.
pub(super) fn width(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.width()
    }
}

/// Returns an escaped text and its width; if it is wider than `most` columns, it is cut and ends with `…`.
pub(super) fn shortened(text: &str, most: usize) -> (Cow<'_, str>, usize) {
    let whole = width(text);
    if whole <= most {
        return (Cow::Borrowed(text), whole);
    }
    let (mut used, mut end) = (0, 0);
    for (at, c) in text.char_indices() {
        let next = used + c.width().unwrap_or(0);
        if next > most.saturating_sub(1) {
            break;
        }
        used = next;
        end = at + c.len_utf8();
    }
    (Cow::Owned(format!("{}…", &text[..end])), used + 1)
}

/// Writes `count` spaces.
pub(super) fn write_spaces(mut count: usize, to: &mut String) {
    const SPACES: &str = "                                ";
    while count > 0 {
        let some = count.min(SPACES.len());
        to.push_str(&SPACES[..some]);
        count -= some;
    }
}

/// Breaks a text at its spaces into lines of at most `most` columns; a longer word gets its own line.
pub(super) fn wrapped(text: &str, most: usize) -> Vec<String> {
    lines(text.split(' ').map(|word| (word, width(word))), most)
}

/// Puts words, each with its columns, into lines of at most `most` columns; a longer word gets its own line.
pub(super) fn lines<'w>(words: impl Iterator<Item = (&'w str, usize)>, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for (word, wide) in words {
        if used > 0 && used + 1 + wide > most {
            lines.push(String::new());
            used = 0;
        }
        // `lines` is never empty.
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
        }
        used += wide;
    }
    lines
}

/// The prefix of a key that is not simply a string.
const TYPED: &str = "json:";

#[cfg(test)]
mod tests {
    use semel_core::Key;

    use super::*;

    #[test]
    fn a_key_is_shown_so_that_all_of_it_is_seen_and_typed_as_it_is_shown() {
        for (key, shown) in [
            ("pay-1", "pay-1"),
            ("two words", "two words"),
            ("支払 🙂", "支払 🙂"),
            ("json:1", "json:1"),
            ("a\\u{200b}", "a\\u{200b}"),
            ("a\u{200b}b", "json:\"a\\u200bb\""),
            ("a\tb\"c", "json:\"a\\tb\\\"c\""),
            ("ends in CR\r", "json:\"ends in CR\\r\""),
            ("trailing ", "json:\"trailing \""),
            ("", "json:\"\""),
            ("json:[\"\u{202e}\",1]", "json:[\"\\u202e\",1]"),
        ] {
            assert_eq!(key_text(key), shown);
            let typed = Key::parse(shown).expect("a key");
            assert_eq!(typed.as_str(), key, "{shown}");
        }
    }

    fn shortened(text: &str, most: usize) -> (String, usize) {
        let (text, used) = super::shortened(text, most);
        (text.into_owned(), used)
    }

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_obey() {
        assert_eq!(escaped("pay-1 é 支払"), "pay-1 é 支払");
        assert_eq!(
            escaped("a\tb\nc\u{1b}[2Jd\u{7f}\u{9b}e\u{202e}f\u{feff}"),
            "a\\tb\\nc\\u{1b}[2Jd\\u{7f}\\u{9b}e\\u{202e}f\\u{feff}"
        );
        assert_eq!(escaped_but("a\nb\r", |c| c == '\n'), "a\nb\\r");
    }

    #[test]
    fn wide_characters_count_twice_and_are_never_halved() {
        assert_eq!(width("支払い"), 6);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(shortened("abcdef", 6), ("abcdef".to_owned(), 6));
        assert_eq!(shortened("abcdef", 5), ("abcd…".to_owned(), 5));
        assert_eq!(shortened("支払い", 6), ("支払い".to_owned(), 6));
        assert_eq!(shortened("支払い", 5), ("支払…".to_owned(), 5));
        assert_eq!(shortened("支払い", 4), ("支…".to_owned(), 3));
        assert_eq!(
            shortened("ae\u{301}bcd", 3),
            ("ae\u{301}…".to_owned(), 3),
            "an accent stays with its letter"
        );
        assert_eq!(shortened("abc", 1), ("…".to_owned(), 1));
    }

    #[test]
    fn prose_is_broken_at_spaces() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a enormously b", 4), ["a", "enormously", "b"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
