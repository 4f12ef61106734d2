//! The names of the files of a producer.

use semel_core::producer::ProducerName;

/// Returns the name of a producer's log.
pub(super) fn log_name(name: &ProducerName) -> String {
    format!("{}{LOG}", escaped(name))
}

/// Returns the name of the log that takes the place of this one.
pub(super) fn next_name(log: &str) -> String {
    format!("{}{NEXT}", log.trim_end_matches(LOG))
}

/// Returns the name of a producer's lock.
pub(super) fn lock_name(name: &ProducerName) -> String {
    format!("{}{LOCK}", escaped(name))
}

/// Returns the producer whose log has this name.
pub(super) fn name_of(file: &str) -> Option<ProducerName> {
    let escaped = file.strip_suffix(LOG)?;
    if let Some(hex) = escaped.strip_prefix(IN_HEX) {
        let bytes = hex.as_bytes().chunks(2).map(|it| {
            let digits = std::str::from_utf8(it).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        let name = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
        return ProducerName::of_sender(&name).ok();
    }
    let mut name = String::new();
    let mut rest = escaped.chars();
    while let Some(next) = rest.next() {
        if next != '=' {
            name.push(next);
            continue;
        }
        let digits: String = rest.by_ref().take(2).collect();
        name.push(char::from(u8::from_str_radix(&digits, 16).ok()?));
    }
    ProducerName::of_sender(&name).ok()
}

/// Returns a name as part of that of a file: capitals are escaped as well, since some file systems do not tell them from
/// small letters. One that would be too long for a file is written in hexadecimal digits instead.
fn escaped(name: &ProducerName) -> String {
    use std::fmt::Write as _;

    let mut text = String::new();
    for byte in name.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "={byte:02x}");
            }
        }
    }
    if text.len() + LOG.len() > MAX_FILE_NAME {
        IN_HEX.clone_into(&mut text);
        for byte in name.as_str().bytes() {
            let _ = write!(text, "{byte:02x}");
        }
    }
    text
}

/// The beginning of a name in such digits, with which no escaped one begins.
const IN_HEX: &str = "==";
/// The longest name of a file that every file system has room for.
const MAX_FILE_NAME: usize = 255;
const LOG: &str = ".journal";
const NEXT: &str = ".next";
const LOCK: &str = ".lock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_alone_have_files_that_differ_in_more() {
        let mut files = Vec::new();
        for name in ["billing", "Billing", "BILLING", "bi/ll=ing.1"] {
            let name: ProducerName = name.parse().expect("a name");
            let file = log_name(&name);
            assert_eq!(name_of(&file), Some(name));
            files.push(file.to_ascii_lowercase());
        }
        files.sort();
        files.dedup();
        assert_eq!(files.len(), 4);
    }

    #[test]
    fn the_longest_names_have_files_and_the_shorter_ones_keep_theirs() {
        for (name, is_in_hex) in [
            ("A".repeat(97), true),
            (format!("{}b", "A".repeat(96)), true),
            (".".repeat(97), true),
            ("A".repeat(82), false),
            ("a".repeat(97), false),
        ] {
            let name = ProducerName::of_sender(&name).expect("a name");
            let file = log_name(&name);
            assert!(file.len() <= MAX_FILE_NAME, "{file}");
            assert_eq!(file.starts_with(IN_HEX), is_in_hex, "{file}");
            assert_eq!(name_of(&file), Some(name));
        }
    }
}
