//! Turns `:name` in statements into `$1`, wherever it is neither text, nor a comment, nor a cast.

use std::fmt::Write as _;

use semel_core::sql::{Dialect, Token};

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
/// # Errors   the fault in the statement, to be put behind its number
pub(crate) fn numbered(text: &str) -> Result<Numbered<'_>, &'static str> {
    let mut found = Numbered {
        sql: String::with_capacity(text.len() + 8),
        names: Vec::new(),
        first_word: Dialect::Postgres.first_word(text),
    };
    for token in Dialect::Postgres.tokens(text) {
        match token {
            Token::Positional(_) => return Err("has a placeholder of the form $1; write :name"),
            Token::Placeholder(written) => {
                let name = token.placeholder().unwrap_or(written);
                let known = found.names.iter().position(|known| *known == name);
                let number = known.unwrap_or_else(|| {
                    found.names.push(name);
                    found.names.len() - 1
                });
                // Writing to a string does not fail.
                let _ = write!(found.sql, "${}", number + 1);
            }
            token => found.sql.push_str(token.text()),
        }
    }
    Ok(found)
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
    fn a_number_is_no_placeholder() {
        assert!(numbered("select $1").is_err());
        assert_eq!(numbered("select a$1").expect("a name").sql, "select a$1");
    }
}
