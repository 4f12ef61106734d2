//! Input: lines of all kinds, half of them repeats, and the first line of each key.

use std::collections::BTreeSet;

use crate::Moments;

/// A seeded stream of lines.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The stream.
    pub bytes: Vec<u8>,
    /// The first line of each key, as it came, in order.
    pub once: Vec<Vec<u8>>,
    /// Lines without a usable key.
    pub unusable: u64,
    /// All lines.
    pub deliveries: u64,
}

/// The key of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKey {
    /// The line itself.
    Line,
    /// `json:/id`; some lines have none.
    JsonId,
}

impl LineKey {
    /// The form that `--key` takes.
    pub const fn selector(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::JsonId => "json:/id",
        }
    }
}

impl Lines {
    /// `count` lines; every second one, about, has the key of an earlier one. The last one may lack
    /// its LF.
    pub fn generate(count: u64, key: LineKey, moments: &mut Moments) -> Self {
        let mut all = Self {
            bytes: Vec::new(),
            once: Vec::new(),
            unusable: 0,
            deliveries: count,
        };
        let mut known = BTreeSet::new();
        let mut made = 0;
        let salt = moments.below(1 << 32);
        for at in 0..count {
            let is_new = made == 0 || moments.below(2) == 0;
            let id = if is_new { made } else { moments.below(made) };
            made += u64::from(is_new);
            let line = match key {
                LineKey::Line => text(salt, id),
                LineKey::JsonId => json(salt, id, at),
            };
            let is_usable = key == LineKey::Line || line.starts_with(b"{\"id\":\"");
            let identity = match key {
                LineKey::Line => line.clone(),
                LineKey::JsonId => id.to_be_bytes().into(),
            };
            let mut whole = line;
            if at + 1 < count || moments.below(2) == 0 {
                whole.push(b'\n');
            }
            all.bytes.extend_from_slice(&whole);
            if !is_usable {
                all.unusable += 1;
            } else if known.insert(identity) {
                all.once.push(whole);
            }
        }
        all
    }

    /// The first lines, each with its LF: the content that a file must have.
    pub fn file(&self) -> Vec<u8> {
        let mut file = self.once.concat();
        if !file.is_empty() && !file.ends_with(b"\n") {
            file.push(b'\n');
        }
        file
    }
}

/// A text that is the same for each `id`: short and long ones, and some that are no text.
fn text(salt: u64, id: u64) -> Vec<u8> {
    let plain = format!("{salt:08x} line {id}");
    match id % 97 {
        7 => format!("{plain}\r").into_bytes(),
        13 => format!("{plain} {}", "x".repeat(300 + (id % 4_000) as usize)).into_bytes(),
        29 => [b"\0", plain.as_bytes()].concat(),
        31 => [b"\xFF\xFE", plain.as_bytes()].concat(),
        37 if id == 37 => Vec::new(),
        _ => plain.into_bytes(),
    }
}

/// Another line for each `at`, with the same key for each `id`.
fn json(salt: u64, id: u64, at: u64) -> Vec<u8> {
    match at % 101 {
        17 => b"no json".to_vec(),
        23 => format!("{{\"no\":{id}}}").into_bytes(),
        _ => format!("{{\"id\":\"{salt:08x}-{id}\",\"at\":{at}}}").into_bytes(),
    }
}
