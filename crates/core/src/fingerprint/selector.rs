//! The parts of a message that its fingerprint is made of.

use std::fmt;
use std::sync::{Arc, LazyLock};

use super::reading::Parts;
use super::{Fingerprint, Reading};
use crate::json::Fault;
use crate::key::Unusable;
use crate::planted;
use crate::select::{InvalidSelector, Selected, Selector, View};

/// The parts of a message that its fingerprint is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FingerprintSelector {
    /// No fingerprint: a reused key goes unnoticed.
    None,
    /// The payload: in canonical form if it is JSON, else byte for byte.
    #[default]
    Payload,
    /// The values that these selectors find.
    Fields(Fields),
}

impl FingerprintSelector {
    /// The fingerprint of the values that `selectors` find; a value that is not found counts as
    /// absent.
    ///
    /// # Errors
    /// An empty list.
    pub fn fields(selectors: Vec<Selector>) -> Result<Self, InvalidSelector> {
        if selectors.is_empty() {
            return Err(InvalidSelector::Empty);
        }
        let texts: Vec<String> = selectors.iter().map(Selector::to_string).collect();
        let scheme = scheme(&texts.join("\n"));
        Ok(Self::Fields(Fields {
            selectors: selectors.into(),
            names: texts.into_iter().map(String::into_boxed_str).collect(),
            scheme,
        }))
    }

    /// The fingerprint of a message; none if the selector asks for none.
    ///
    /// # Errors
    /// `member-duplicated`, `number-too-long` and `nested-too-deep` in the fingerprinted part, and
    /// `not-json` if a selector needs JSON.
    pub fn fingerprint(&self, view: &View<'_>) -> Result<Option<Fingerprint>, Unusable> {
        Ok(self.read(view)?.map(|reading| reading.fingerprint()))
    }

    /// The values that the fingerprint of a message is made of, with the fingerprint; none if the
    /// selector asks for none.
    ///
    /// # Errors
    /// As [`fingerprint`](Self::fingerprint).
    pub fn read(&self, view: &View<'_>) -> Result<Option<Reading>, Unusable> {
        match self {
            Self::None => Ok(None),
            Self::Payload => of_payload(view).map(Some),
            Self::Fields(fields) => fields.read(view).map(Some),
        }
    }
}

impl fmt::Display for FingerprintSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Payload => f.write_str("payload"),
            Self::Fields(fields) => {
                for (index, selector) in fields.selectors.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { " + " })?;
                    selector.fmt(f)?;
                }
                Ok(())
            }
        }
    }
}

/// The selectors of a fingerprint, at least one, and the scheme that they make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    selectors: Box<[Selector]>,
    /// The selectors as texts.
    names: Arc<[Box<str>]>,
    scheme: u32,
}

impl Fields {
    /// The selectors, in the order in which their values are read.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    fn read(&self, view: &View<'_>) -> Result<Reading, Unusable> {
        let mut read = Vec::with_capacity(FIELDS_BYTES);
        let mut ranges = Vec::with_capacity(self.selectors.len());
        for selector in &self.selectors {
            let start = read.len();
            append(view.select(selector)?, selector, &mut read)?;
            ranges.push(start..read.len());
        }
        let hash = blake3::hash(&read);
        let parts = Parts::Selected(Arc::clone(&self.names), ranges);
        Ok(Reading::new(self.scheme, hash, read, parts))
    }
}

/// Appends a value: its type, its length, itself.
fn append(
    found: Option<Selected<'_>>,
    selector: &Selector,
    out: &mut Vec<u8>,
) -> Result<(), Unusable> {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let tag = match found {
        None => b'-',
        Some(Selected::Null) => b'0',
        Some(Selected::Bool(false)) => b'f',
        Some(Selected::Bool(true)) => b't',
        Some(Selected::Number(number)) => {
            out.extend_from_slice(number.as_bytes());
            b'n'
        }
        Some(Selected::Text(text)) => {
            out.extend_from_slice(text.as_bytes());
            b's'
        }
        Some(Selected::Bytes(bytes)) => {
            out.extend_from_slice(bytes);
            b'b'
        }
        Some(Selected::Event(source, id)) => {
            out.extend_from_slice(&(source.len() as u64).to_le_bytes());
            out.extend_from_slice(source.as_bytes());
            out.extend_from_slice(id.as_bytes());
            b'e'
        }
        Some(Selected::Nested(node)) => {
            let at = || selector.to_string().into();
            node.canonical(out)
                .map_err(|error| Unusable::of_json(error, at))?;
            b'j'
        }
    };
    let length = (out.len() - start - HEAD_BYTES) as u64;
    out[start] = tag;
    out[start + 1..start + HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

fn of_payload(view: &View<'_>) -> Result<Reading, Unusable> {
    let payload = view.message().payload;
    let at = || PAYLOAD.into();
    let whole = || {
        Reading::new(
            *PAYLOAD_SCHEME,
            blake3::hash(payload),
            Vec::new(),
            Parts::None,
        )
    };
    match view.document() {
        Ok(_) if planted("M26") => Ok(whole()),
        Ok(document) => {
            let (mut canonical, mut members) = (Vec::with_capacity(payload.len()), Vec::new());
            let root = document.root();
            let written = root.canonical_with_members(&mut canonical, &mut members);
            written.map_err(|error| Unusable::of_json(error, at))?;
            let hash = blake3::hash(&canonical);
            let parts = Parts::Object(members);
            Ok(Reading::new(*PAYLOAD_SCHEME, hash, canonical, parts))
        }
        Err(error) if error.fault == Fault::TooDeep => Err(Unusable::of_json(error, at)),
        Err(_) => Ok(whole()),
    }
}

fn scheme(selectors: &str) -> u32 {
    let hash = blake3::hash(format!("{CANONICAL_VERSION}\n{selectors}").as_bytes());
    let [a, b, c, d, ..] = *hash.as_bytes();
    u32::from_le_bytes([a, b, c, d])
}

static PAYLOAD_SCHEME: LazyLock<u32> = LazyLock::new(|| scheme(PAYLOAD));
const PAYLOAD: &str = "payload";
/// The version of the canonical form; it goes up whenever equal messages would get other digests
/// than before.
const CANONICAL_VERSION: &str = "semel fingerprint 1";
/// A value's type and its length.
const HEAD_BYTES: usize = 9;
/// Room for the fields of most messages.
const FIELDS_BYTES: usize = 256;
