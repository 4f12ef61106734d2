//! Quotes the words of a command line for any POSIX shell, or, with characters that a terminal would obey or
//! hide, for bash, zsh, ksh and busybox.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::terminal::is_unsafe;

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if word.contains(is_unsafe) {
        return escaped(word.as_bytes());
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Quotes a path for a shell.
pub fn quoted_path(path: &Path) -> String {
    match path.to_str() {
        Some(path) => quoted(path),
        None => escaped(path.as_os_str().as_bytes()),
    }
}

/// Quotes bytes for bash, zsh, ksh and busybox.
pub fn escaped(bytes: &[u8]) -> String {
    let mut word = String::from("$'");
    let hex = |bytes: &[u8], word: &mut String| {
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(word, "\\x{byte:02x}");
        }
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' | '\'' => word.extend(['\\', c]),
                c if is_unsafe(c) => hex(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut word),
                c => word.push(c),
            }
        }
        hex(chunk.invalid(), &mut word);
    }
    word + "'"
}
