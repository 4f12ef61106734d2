//! Reads a statement: its placeholders, its first word, and whether it is one statement. No grammar: the server knows
//! what it means.

use semel_core::sql::{Dialect, Token};
use semel_core::{Error, Result};

use super::invalid;

/// A statement with `?` for its placeholders.
#[derive(Debug, PartialEq)]
pub(super) struct Read {
    pub(super) text: String,
    /// Index of the value that each placeholder takes.
    pub(super) values: Vec<usize>,
    /// Every word outside of strings and comments; the names of its tables are among them.
    pub(super) words: Vec<Word>,
}

/// A word of a statement.
#[derive(Debug, PartialEq)]
pub(super) struct Word {
    pub(super) text: String,
    /// The word that a point joins it to: for a table, its database.
    pub(super) of: Option<String>,
}

/// Reads the statement of this number.
pub(super) fn read(number: usize, text: &str, params: &[Box<str>]) -> Result<Read> {
    let mut read = Read {
        text: String::with_capacity(text.len()),
        values: Vec::new(),
        words: Vec::new(),
    };
    let mut is_over = false;
    // Words with only a point, white space and comments between them belong together.
    let mut joined = Joined::default();
    for token in Dialect::Mysql.tokens(text.trim_start_matches('\u{feff}')) {
        let is_blank = matches!(token, Token::Blank(_) | Token::Comment(_));
        if is_over && !is_blank && token != Token::Other(";") {
            return Err(invalid(&format!(
                "statement {number} holds several; give them one by one as `statements = [...]`"
            )));
        }
        match token {
            Token::Other(";") => {
                is_over |= !read.words.is_empty();
                joined = Joined::default();
            }
            Token::Positional(_) => {
                return Err(invalid(&format!(
                    "statement {number} has a placeholder ?; write :name"
                )));
            }
            Token::Blank(_) | Token::Comment(_) => read.text.push(' '),
            Token::Placeholder(written) => {
                let name = token.placeholder().unwrap_or(written);
                let place = params.iter().position(|param| **param == *name);
                read.values
                    .push(place.ok_or_else(|| unknown(number, name))?);
                read.text.push('?');
                joined = Joined::default();
            }
            Token::Name(piece) | Token::Word(piece) => {
                read.text.push_str(piece);
                let text = unquoted(piece);
                let of = joined.next_to(&text);
                read.words.push(Word { text, of });
            }
            Token::Text(piece) | Token::Other(piece) => {
                read.text.push_str(piece);
                joined.meet(piece);
            }
        }
    }
    check_first(number, &read)?;
    Ok(read)
}

/// The word that the next one may be joined to.
#[derive(Default)]
struct Joined {
    last: Option<String>,
    by_point: bool,
}

impl Joined {
    /// Takes in a word; returns the one that it is joined to.
    fn next_to(&mut self, word: &str) -> Option<String> {
        let before = self.last.replace(word.to_owned());
        before.filter(|_| std::mem::take(&mut self.by_point))
    }

    /// Takes in a piece that is no word.
    fn meet(&mut self, piece: &str) {
        // A point without a name before it: the database is the session's.
        let is_name = |word: &String| !BEFORE_TABLES.iter().any(|it| it.eq_ignore_ascii_case(word));
        self.by_point = piece == "." && self.last.as_ref().is_some_and(is_name);
        if !self.by_point {
            self.last = None;
        }
    }
}

/// Returns a word as it is, or the name inside the quotes; a quote that is part of the name is doubled there.
fn unquoted(piece: &str) -> String {
    let Some(name) = piece.strip_prefix('`') else {
        return piece.to_owned();
    };
    name.strip_suffix('`').unwrap_or(name).replace("``", "`")
}

/// Accepts only statements that surely leave the transaction open: a definition of tables commits by itself, and a
/// procedure may.
fn check_first(number: usize, read: &Read) -> Result<()> {
    let Some(first) = read
        .words
        .first()
        .map(|word| word.text.to_ascii_uppercase())
    else {
        return Err(invalid(&format!("statement {number} is empty")));
    };
    if ALLOWED.contains(&&*first) {
        return Ok(());
    }
    let message = format!(
        "statement {number} begins with {first}, but it runs inside a transaction of the store, which only \
         INSERT, REPLACE, UPDATE, DELETE, SELECT and WITH leave as it is"
    );
    Err(invalid(&message))
}

fn unknown(number: usize, name: &str) -> Error {
    invalid(&format!(
        "statement {number} has :{name}, but params has no {name}"
    ))
}

const BEFORE_TABLES: [&str; 11] = [
    "DELAYED",
    "DELETE",
    "FROM",
    "HIGH_PRIORITY",
    "IGNORE",
    "INSERT",
    "INTO",
    "JOIN",
    "LOW_PRIORITY",
    "REPLACE",
    "UPDATE",
];
const ALLOWED: [&str; 6] = ["INSERT", "REPLACE", "UPDATE", "DELETE", "SELECT", "WITH"];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Read> {
        read(1, text, &["id".into(), "amount".into()])
    }

    #[test]
    fn placeholders_are_found_wherever_they_are_code() {
        for (text, expected, values) in [
            (
                "INSERT INTO t VALUES (:id, :amount)",
                "INSERT INTO t VALUES (?, ?)",
                vec![0, 1],
            ),
            (
                "UPDATE t SET a=:amount+:amount;",
                "UPDATE t SET a=?+?",
                vec![1, 1],
            ),
            (
                "SELECT ':id', \":id\", `:id`, :id",
                "SELECT ':id', \":id\", `:id`, ?",
                vec![0],
            ),
            (
                "SELECT 'it''s \\' :id', :id",
                "SELECT 'it''s \\' :id', ?",
                vec![0],
            ),
            ("SELECT 1 -- :id\n, :id", "SELECT 1  , ?", vec![0]),
            ("SELECT 1 # :id\n, :id", "SELECT 1  , ?", vec![0]),
            ("SELECT 1 /* :id */, :id", "SELECT 1  , ?", vec![0]),
            ("SELECT @a := :id, 5--1", "SELECT @a := ?, 5--1", vec![0]),
            ("SELECT 'ä:id', ä, :id", "SELECT 'ä:id', ä, ?", vec![0]),
            ("SELECT :id ;; -- end", "SELECT ?   ", vec![0]),
        ] {
            let read = of(text).expect(text);
            assert_eq!(read.text.trim_end(), expected.trim_end(), "{text}");
            assert_eq!(read.values, values, "{text}");
        }
    }

    #[test]
    fn what_is_no_statement_is_refused() {
        for (text, words) in [
            ("", "empty"),
            ("-- nothing", "empty"),
            (";", "empty"),
            ("INSERT INTO t VALUES (?)", "write :name"),
            ("INSERT INTO t VALUES (:amont)", "params has no amont"),
            ("DELETE FROM t; DELETE FROM u", "holds several"),
            ("CREATE TABLE t (a INT)", "begins with CREATE"),
            ("/* so */ COMMIT", "begins with COMMIT"),
            ("(CALL p())", "begins with CALL"),
            ("SET autocommit = 1", "begins with SET"),
            ("truncate t", "begins with TRUNCATE"),
        ] {
            let error = of(text).expect_err(text);
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn words_are_what_is_neither_string_nor_comment() {
        let read =
            of("INSERT INTO `a b`.`pay` /* x */ SELECT 'y', z.id FROM z").expect("a statement");
        let words = [
            "INSERT", "INTO", "a b", "pay", "SELECT", "z", "id", "FROM", "z",
        ];
        let found: Vec<_> = read.words.iter().map(|word| &*word.text).collect();
        assert_eq!(found, words);
    }

    #[test]
    fn a_word_is_joined_to_the_one_before_its_point() {
        for (text, joined) in [
            ("INSERT INTO a.b VALUES (1)", vec![("a", "b")]),
            ("INSERT INTO `a b` . `c``d`", vec![("a b", "c`d")]),
            (
                "UPDATE a /* x */.\n-- y\nb SET c = 1.5",
                vec![("a", "b"), ("1", "5")],
            ),
            (
                "SELECT a.b.c FROM a.b",
                vec![("a", "b"), ("b", "c"), ("a", "b")],
            ),
            ("SELECT a FROM .b", vec![]),
            ("SELECT a, b FROM c d", vec![]),
            ("SELECT 'a'.b, :id.c", vec![]),
            ("INSERT INTO `-a`.`$`", vec![("-a", "$")]),
        ] {
            let read = of(text).expect(text);
            let pairs = read.words.iter();
            let pairs: Vec<_> = pairs
                .filter_map(|word| Some((word.of.as_deref()?, &*word.text)))
                .collect();
            assert_eq!(pairs, joined, "{text}");
        }
    }

    #[test]
    fn strings_that_do_not_end_end_with_the_text() {
        for text in [
            "SELECT 'a",
            "SELECT \"a\\",
            "SELECT `a",
            "SELECT /* a",
            "SELECT 1 --",
            "SELECT :",
        ] {
            assert!(
                of(text).is_ok(),
                "{text}: the server says what is wrong with it"
            );
        }
    }
}
