//! The pieces of an SQL statement, as far as needed to tell whether a `:name` is a placeholder.
//!
//! Not a parser: it only knows what can *hide* a colon or a word, which is texts, quoted names and comments,
//! and these differ from database to database. The database knows what a statement means.

/// The SQL dialect of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `E'…'`, dollar quotes, comments within comments, casts with `::`.
    Postgres,
    /// MySQL and `MariaDB`: a backslash escapes within `'…'` and `"…"`, `#` begins a comment, and `--` only
    /// before white space.
    Mysql,
    /// SQLite: names in `[…]` and backticks too.
    Sqlite,
}

/// A piece of a statement. Together, the texts of all pieces are the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'t> {
    /// White space.
    Blank(&'t str),
    /// A comment, its delimiters included.
    Comment(&'t str),
    /// A text with its quotes.
    Text(&'t str),
    /// A name with its quotes.
    Name(&'t str),
    /// A word or a number.
    Word(&'t str),
    /// `:name`, the colon included.
    Placeholder(&'t str),
    /// A placeholder of the database's own, by its position: `?`, `?1`, `$1`.
    Positional(&'t str),
    /// Anything else, mostly one character.
    Other(&'t str),
}

impl<'t> Token<'t> {
    /// The text as written.
    pub const fn text(self) -> &'t str {
        match self {
            Self::Blank(text)
            | Self::Comment(text)
            | Self::Text(text)
            | Self::Name(text)
            | Self::Word(text)
            | Self::Placeholder(text)
            | Self::Positional(text)
            | Self::Other(text) => text,
        }
    }

    /// The name of a placeholder, without its colon.
    pub fn placeholder(self) -> Option<&'t str> {
        match self {
            Self::Placeholder(text) => text.strip_prefix(':'),
            Self::Blank(_)
            | Self::Comment(_)
            | Self::Text(_)
            | Self::Name(_)
            | Self::Word(_)
            | Self::Positional(_)
            | Self::Other(_) => None,
        }
    }
}

impl Dialect {
    /// The pieces of a statement. A quote or comment that is never closed ends with the statement.
    pub const fn tokens(self, statement: &str) -> Tokens<'_> {
        Tokens {
            dialect: self,
            rest: statement,
        }
    }

    /// The first word of a statement, past white space, comments and anything else; empty if there is none.
    pub fn first_word(self, statement: &str) -> &str {
        let mut tokens = self.tokens(statement);
        let word = tokens.find_map(|token| match token {
            Token::Word(word) => Some(word),
            _ => None,
        });
        word.unwrap_or("")
    }

    /// Returns whether the statement has nothing but white space, comments and semicolons.
    pub fn is_blank(self, statement: &str) -> bool {
        self.tokens(statement).all(|token| {
            matches!(
                token,
                Token::Blank(_) | Token::Comment(_) | Token::Other(";" | BYTE_ORDER_MARK)
            )
        })
    }

    /// The piece that `rest`, which is not empty, begins with.
    fn first(self, rest: &str) -> Token<'_> {
        let bytes = rest.as_bytes();
        let next = bytes.get(1).copied();
        let cut = |len: usize| &rest[..len.min(rest.len())];
        match bytes[0] {
            b'\'' => Token::Text(cut(quoted(bytes, 1, self == Self::Mysql))),
            b'e' | b'E' if self == Self::Postgres && next == Some(b'\'') => {
                Token::Text(cut(quoted(bytes, 2, true)))
            }
            b'"' if self == Self::Mysql => Token::Text(cut(quoted(bytes, 1, true))),
            b'"' => Token::Name(cut(quoted(bytes, 1, false))),
            b'`' if self != Self::Postgres => Token::Name(cut(quoted(bytes, 1, false))),
            b'[' if self == Self::Sqlite => Token::Name(cut(through(rest, 1, "]"))),
            b'-' if next == Some(b'-') && self.is_comment(bytes.get(2).copied()) => {
                Token::Comment(cut(line(rest)))
            }
            b'#' if self == Self::Mysql => Token::Comment(cut(line(rest))),
            b'/' if next == Some(b'*') => Token::Comment(cut(match self {
                Self::Postgres => nested(bytes),
                Self::Mysql | Self::Sqlite => through(rest, 2, "*/"),
            })),
            b'$' if self == Self::Postgres => dollar(rest),
            b'?' if self == Self::Mysql => Token::Positional(cut(1)),
            b'?' if self == Self::Sqlite => Token::Positional(cut(1 + digits(&rest[1..]))),
            b'@' if self == Self::Mysql => {
                let is_part = |letter| is_word(letter) || matches!(letter, '@' | '.');
                Token::Other(cut(1 + span(&rest[1..], is_part)))
            }
            b':' if matches!(next, Some(b':' | b'=')) => Token::Other(cut(2)),
            b':' => match self.word(&rest[1..]) {
                // Not the bounds of `b[1:2]`.
                0 => Token::Other(cut(1)),
                _ if next.is_some_and(|byte| byte.is_ascii_digit() || byte == b'$') => {
                    Token::Other(cut(1))
                }
                len => Token::Placeholder(cut(1 + len)),
            },
            _ => match (span(rest, char::is_whitespace), self.word(rest)) {
                (0, 0) => Token::Other(cut(rest.chars().next().map_or(1, char::len_utf8))),
                (0, len) => Token::Word(cut(len)),
                (len, _) => Token::Blank(cut(len)),
            },
        }
    }

    /// Returns whether `--` begins a comment before this byte.
    fn is_comment(self, next: Option<u8>) -> bool {
        match self {
            Self::Postgres | Self::Sqlite => true,
            Self::Mysql => {
                next.is_none_or(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
            }
        }
    }

    /// The length of the word that `rest` begins with.
    fn word(self, rest: &str) -> usize {
        span(rest, is_word).min(match self {
            // A dollar is part of a word and begins none.
            Self::Postgres if rest.starts_with('$') => 0,
            Self::Postgres | Self::Mysql | Self::Sqlite => usize::MAX,
        })
    }
}

/// The pieces of a statement, one after the other.
#[derive(Debug, Clone)]
pub struct Tokens<'t> {
    dialect: Dialect,
    rest: &'t str,
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        if self.rest.is_empty() {
            return None;
        }
        let token = self.dialect.first(self.rest);
        self.rest = &self.rest[token.text().len()..];
        Some(token)
    }
}

/// `$1`, `$tag$ … $tag$`, or a dollar.
fn dollar(rest: &str) -> Token<'_> {
    let is_tag = |letter: char| letter.is_alphanumeric() || letter == '_';
    let number = digits(&rest[1..]);
    if number > 0 {
        return Token::Positional(&rest[..=number]);
    }
    let begin = 1 + span(&rest[1..], is_tag);
    if !rest[begin..].starts_with('$') {
        return Token::Other(&rest[..1]);
    }
    let tag = &rest[..=begin];
    Token::Text(&rest[..through(rest, tag.len(), tag)])
}

/// The length of a quoted text that ends with the quote before `from`; two quotes in a row stand for one.
fn quoted(text: &[u8], from: usize, backslash_escapes: bool) -> usize {
    let quote = text[from - 1];
    let mut at = from;
    while at < text.len() {
        if backslash_escapes && text[at] == b'\\' {
            at += 2;
        } else if text[at] != quote {
            at += 1;
        } else if text.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    text.len()
}

/// The length of a comment that may contain others.
fn nested(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length up to and with `end`, searched from `from` on, or the length of everything.
fn through(text: &str, from: usize, end: &str) -> usize {
    let found = text[from..].find(end);
    found.map_or(text.len(), |at| from + at + end.len())
}

/// The length up to the end of the line.
fn line(text: &str) -> usize {
    through(text, 0, "\n")
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '$')
}

fn digits(text: &str) -> usize {
    span(text, |letter| letter.is_ascii_digit())
}

fn span(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !is_part(letter)).unwrap_or(text.len())
}

const BYTE_ORDER_MARK: &str = "\u{feff}";

#[cfg(test)]
mod tests;
