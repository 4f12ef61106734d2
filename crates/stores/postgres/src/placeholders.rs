//! `:name` in statements becomes `$1`, wherever it is neither text, nor a comment, nor a cast.

use std::fmt::Write as _;

/// A statement with numbered placeholders.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Numbered<'t> {
    pub(crate) sql: String,
    /// The name of each placeholder, from `$1` on.
    pub(crate) names: Vec<&'t str>,
    /// The first word, past white space and comments.
    pub(crate) first_word: &'t str,
}

/// Numbers the placeholders of a statement.
///
/// # Errors   what is wrong with it, to be put behind its number
pub(crate) fn numbered(text: &str) -> Result<Numbered<'_>, &'static str> {
    let mut found = Numbered {
        sql: String::with_capacity(text.len() + 8),
        names: Vec::new(),
        first_word: "",
    };
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let rest = &text[at..];
        let end = at + skipped(rest).unwrap_or(0);
        if end > at {
            found.sql.push_str(&text[at..end]);
            at = end;
            continue;
        }
        if letter == '$' && rest[1..].starts_with(|next: char| next.is_ascii_digit()) {
            return Err("has a placeholder of the form $1; write :name");
        }
        if rest.starts_with("::") || rest.starts_with(":=") {
            found.sql.push_str(&rest[..2]);
            at += 2;
            continue;
        }
        let word = word(if letter == ':' { &rest[1..] } else { rest });
        // Not `b[1:2]`.
        if letter == ':' && word.starts_with(|first: char| !first.is_ascii_digit()) {
            let known = found.names.iter().position(|name| *name == word);
            let number = known.unwrap_or_else(|| {
                found.names.push(word);
                found.names.len() - 1
            });
            // Writing to a string does not fail.
            let _ = write!(found.sql, "${}", number + 1);
            at += 1 + word.len();
            continue;
        }
        if letter != ':' && !word.is_empty() {
            if found.first_word.is_empty() {
                found.first_word = word;
            }
            found.sql.push_str(word);
            at += word.len();
            continue;
        }
        found.sql.push(letter);
        at += letter.len_utf8();
    }
    Ok(found)
}

/// The length of a text, name in quotes or comment that `rest` begins with.
fn skipped(rest: &str) -> Option<usize> {
    let lower = rest.as_bytes().first()?.to_ascii_lowercase();
    match lower {
        b'\'' => Some(quoted(rest, 1, b'\'', false)),
        b'e' if rest[1..].starts_with('\'') => Some(quoted(rest, 2, b'\'', true)),
        b'"' => Some(quoted(rest, 1, b'"', false)),
        b'-' if rest.starts_with("--") => Some(rest.find('\n').unwrap_or(rest.len())),
        b'/' if rest.starts_with("/*") => Some(comment(rest)),
        b'$' => dollars(rest),
        _ => None,
    }
}

/// The length of what ends with `quote`, where two of them stand for one.
fn quoted(rest: &str, begin: usize, quote: u8, escapes: bool) -> usize {
    let bytes = rest.as_bytes();
    let mut at = begin;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] != quote {
            at += 1;
        } else if bytes.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    rest.len()
}

/// The length of a comment, within which others may stand.
fn comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    let bytes = rest.as_bytes();
    while at < bytes.len() {
        match &bytes[at..(at + 2).min(bytes.len())] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of `$tag$ … $tag$`.
fn dollars(rest: &str) -> Option<usize> {
    let tag = word(&rest[1..]);
    let begin = tag.len() + 2;
    if tag.starts_with(|letter: char| letter.is_ascii_digit())
        || !rest[begin - 1..].starts_with('$')
    {
        return None;
    }
    let end = rest[begin..].find(&rest[..begin]);
    Some(end.map_or(rest.len(), |end| begin + end + begin))
}

fn word(rest: &str) -> &str {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let end = rest.find(|letter| !is_part(letter));
    &rest[..end.unwrap_or(rest.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_once_each() {
        let found = numbered("insert into t values (:b, :a::int, :b)").expect("fine");
        assert_eq!(found.sql, "insert into t values ($1, $2::int, $1)");
        assert_eq!((found.names, found.first_word), (vec!["b", "a"], "insert"));
    }

    #[test]
    fn what_only_looks_like_a_placeholder_is_left_alone() {
        for text in [
            "select ':a', 'it''s :b'",
            r"select E'\':c'",
            "select \":d\" -- :e\n",
            "select /* :f /* :g */ :h */ 1",
            "select $$ :i $$, $x$ :j $$ $x$",
            "select a::text, b[1:2]",
        ] {
            let found = numbered(text).expect("fine");
            assert_eq!(found.sql, text);
            assert!(found.names.is_empty() || text.contains("[1:2]"), "{text}");
        }
    }

    #[test]
    fn comments_do_not_hide_what_a_statement_is() {
        for (text, word) in [
            (" ; -- one\n /* two */ COMMIT;", "COMMIT"),
            ("(select 1)", "select"),
            ("--", ""),
            ("/* open", ""),
            ("naïve(:größe)", "naïve"),
        ] {
            assert_eq!(numbered(text).expect("fine").first_word, word, "{text}");
        }
        assert!(numbered("select $1").is_err());
    }
}
