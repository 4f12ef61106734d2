//! Finds the `:name` placeholders of SQL, whatever its dialect.
//!
//! Not a parser: it only has to know what can *hide* a colon, which is literals, quoted names,
//! comments and PostgreSQL's casts and dollar quotes.

/// The names of the placeholders of all `statements`, each once, in the order of their first use.
pub(super) fn names<S: AsRef<str>>(statements: &[S]) -> Vec<Box<str>> {
    let mut names: Vec<Box<str>> = Vec::new();
    for sql in statements {
        walk(sql.as_ref(), |piece| {
            if let Piece::Placeholder(name) = piece
                && !names.iter().any(|known| **known == *name)
            {
                names.push(name.into());
            }
        });
    }
    names
}

/// Whether there is nothing but comments, white space and semicolons.
pub(super) fn is_blank(sql: &str) -> bool {
    let mut blank = true;
    walk(sql, |piece| {
        blank &= matches!(piece, Piece::Comment)
            || matches!(piece, Piece::Other(byte) if byte.is_ascii_whitespace() || byte == b';');
    });
    blank
}

enum Piece<'a> {
    Placeholder(&'a str),
    Comment,
    Quoted,
    Other(u8),
}

fn walk<'a>(sql: &'a str, mut see: impl FnMut(Piece<'a>)) {
    let bytes = sql.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (piece, length) = match rest {
            [b'\'', ..] if at > 0 && is_escape_prefix(&bytes[..at]) => {
                (Piece::Quoted, quoted(rest, true))
            }
            [b'\'' | b'"' | b'`', ..] => (Piece::Quoted, quoted(rest, false)),
            [b'-', b'-', ..] => (Piece::Comment, through(rest, 2, b"\n")),
            [b'/', b'*', ..] => (Piece::Comment, through(rest, 2, b"*/")),
            [b'$', ..]
                if !at
                    .checked_sub(1)
                    .is_some_and(|before| is_part(bytes[before])) =>
            {
                match dollar_quoted(rest) {
                    Some(length) => (Piece::Quoted, length),
                    None => (Piece::Other(b'$'), 1),
                }
            }
            [b':', b':', ..] => (Piece::Other(b':'), 2),
            [b':', first, ..] if is_start(*first) => {
                let length = 1 + run(&rest[1..]);
                (Piece::Placeholder(&sql[at + 1..at + length]), length)
            }
            [byte, ..] => (Piece::Other(*byte), 1),
            [] => break,
        };
        see(piece);
        at += length;
    }
}

/// The length of what a quote begins and the next one ends; twice, it stands for itself.
fn quoted(text: &[u8], backslash_escapes: bool) -> usize {
    let mut at = 1;
    while at < text.len() {
        if backslash_escapes && text[at] == b'\\' {
            at += 2;
        } else if text[at] != text[0] {
            at += 1;
        } else if text.get(at + 1) == Some(&text[0]) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    text.len()
}

/// PostgreSQL's `E'…'`, in which a backslash escapes.
fn is_escape_prefix(before: &[u8]) -> bool {
    match before {
        [.., byte, b'e' | b'E'] => !is_part(*byte),
        [b'e' | b'E'] => true,
        _ => false,
    }
}

/// The length of `$tag$ … $tag$`, if that is what it is.
fn dollar_quoted(text: &[u8]) -> Option<usize> {
    let tag = match text.get(1)? {
        b'$' => 2,
        first if is_start(*first) => {
            let end = 1 + run(&text[1..]);
            (text.get(end) == Some(&b'$')).then_some(end + 1)?
        }
        _ => return None,
    };
    let closing = text[tag..]
        .windows(tag)
        .position(|window| *window == text[..tag])?;
    Some(tag + closing + tag)
}

/// The length up to and with `end`, sought from `from` on, or of everything.
fn through(text: &[u8], from: usize, end: &[u8]) -> usize {
    let found = text[from..]
        .windows(end.len())
        .position(|window| window == end);
    found.map_or(text.len(), |at| from + at + end.len())
}

fn run(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_part(**byte)).count()
}

const fn is_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

const fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
