//! The reasons why a message yields no usable key, so that it is quarantined unrun.

use std::fmt;

use crate::json::{Fault, JsonError};
use crate::select::Selected;

/// The longest text of a key that is not selected by `line`.
pub(super) const KEY_MAX_BYTES: usize = 1024;

/// The reason why a message cannot be given to an effect; it is kept with the message in quarantine.
///
/// `at` is the selector at fault, as the configuration writes it. No variant carries payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// A selector needs JSON, and the payload is none.
    NotJson(JsonError),
    /// The selector finds nothing.
    KeyMissing {
        /// The selector at fault.
        at: Box<str>,
    },
    /// The selector finds `null`.
    KeyNull {
        /// The selector at fault.
        at: Box<str>,
    },
    /// The selector finds neither a string nor a number.
    KeyNotScalar {
        /// The selector at fault.
        at: Box<str>,
        /// The value that it finds instead, with its article.
        found: &'static str,
    },
    /// The selector finds an empty text, or nothing but white space.
    KeyBlank {
        /// The selector at fault.
        at: Box<str>,
    },
    /// The canonical text of the key is over [`Key::MAX_BYTES`](super::Key::MAX_BYTES) long.
    KeyTooLong {
        /// The selectors of the key.
        at: Box<str>,
    },
    /// The selector finds a text with a control character in it.
    KeyControlCharacter {
        /// The selector at fault.
        at: Box<str>,
    },
    /// A member or header occurs twice where one is to be selected.
    MemberDuplicated {
        /// The selector at fault, or `payload`.
        at: Box<str>,
    },
    /// A number would take over 1,000 digits to write out.
    NumberTooLong {
        /// The selector at fault, or `payload`.
        at: Box<str>,
    },
    /// The payload is nested over 128 deep.
    NestedTooDeep,
    /// The message is larger than `max_message`.
    MessageTooLarge {
        /// Its size.
        size_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The birth selector finds nothing.
    BirthMissing {
        /// The selector at fault.
        at: Box<str>,
    },
    /// The birth selector finds no time, or one before 1970.
    BirthInvalid {
        /// The selector at fault.
        at: Box<str>,
    },
    /// The entity selector finds nothing usable.
    EntityMissing {
        /// The selector at fault.
        at: Box<str>,
    },
    /// The version selector finds no whole number that fits.
    VersionInvalid {
        /// The selector at fault.
        at: Box<str>,
    },
    /// The tenant selector finds nothing that can be a tenant.
    TenantMissing {
        /// The selector at fault.
        at: Box<str>,
    },
    /// A sequence gate finds no identity, or a part of one.
    ProducerMissing {
        /// The selector at fault.
        at: Box<str>,
    },
    /// The epoch of the message is older than one of which the sequence gate took a message.
    ProducerFenced {
        /// The place of the message in the order of its producer, and the epoch that was taken.
        at: Box<str>,
    },
    /// The sequence gate does not know the producer, which begins later than at its beginning.
    ProducerUnknown {
        /// The place of the message in the order of its producer.
        at: Box<str>,
    },
    /// Messages before this one are missing, and did not come while the sequence gate held it.
    SequenceGap {
        /// The place of the message in the order of its producer, and the first that is missing.
        at: Box<str>,
    },
}

impl Unusable {
    /// Every code, in the order of the variants.
    pub const CODES: [&str; 20] = [
        "not-json",
        "key-missing",
        "key-null",
        "key-not-scalar",
        "key-blank",
        "key-too-long",
        "key-control-character",
        "member-duplicated",
        "number-too-long",
        "nested-too-deep",
        "message-too-large",
        "birth-missing",
        "birth-invalid",
        "entity-missing",
        "version-invalid",
        "tenant-missing",
        "producer-missing",
        "producer-fenced",
        "producer-unknown",
        "sequence-gap",
    ];

    /// The stable code, as in `semel explain CODE` and `quarantine list`.
    pub const fn code(&self) -> &'static str {
        let index = match self {
            Self::NotJson(_) => 0,
            Self::KeyMissing { .. } => 1,
            Self::KeyNull { .. } => 2,
            Self::KeyNotScalar { .. } => 3,
            Self::KeyBlank { .. } => 4,
            Self::KeyTooLong { .. } => 5,
            Self::KeyControlCharacter { .. } => 6,
            Self::MemberDuplicated { .. } => 7,
            Self::NumberTooLong { .. } => 8,
            Self::NestedTooDeep => 9,
            Self::MessageTooLarge { .. } => 10,
            Self::BirthMissing { .. } => 11,
            Self::BirthInvalid { .. } => 12,
            Self::EntityMissing { .. } => 13,
            Self::VersionInvalid { .. } => 14,
            Self::TenantMissing { .. } => 15,
            Self::ProducerMissing { .. } => 16,
            Self::ProducerFenced { .. } => 17,
            Self::ProducerUnknown { .. } => 18,
            Self::SequenceGap { .. } => 19,
        };
        Self::CODES[index]
    }

    /// The text that a store keeps beside the [`code`](Self::code), for [`restore`](Self::restore).
    pub fn detail(&self) -> String {
        match self {
            Self::NotJson(JsonError { fault, offset }) => format!("{offset} {fault}"),
            Self::KeyNotScalar { at, found } => format!("{found}: {at}"),
            Self::NestedTooDeep => String::new(),
            Self::MessageTooLarge {
                size_bytes,
                limit_bytes,
            } => {
                format!("{size_bytes} {limit_bytes}")
            }
            Self::KeyMissing { at }
            | Self::KeyNull { at }
            | Self::KeyBlank { at }
            | Self::KeyTooLong { at }
            | Self::KeyControlCharacter { at }
            | Self::MemberDuplicated { at }
            | Self::NumberTooLong { at }
            | Self::BirthMissing { at }
            | Self::BirthInvalid { at }
            | Self::EntityMissing { at }
            | Self::VersionInvalid { at }
            | Self::TenantMissing { at }
            | Self::ProducerMissing { at }
            | Self::ProducerFenced { at }
            | Self::ProducerUnknown { at }
            | Self::SequenceGap { at } => at.to_string(),
        }
    }

    /// Tells whether the reason says nothing against the selector of keys, which was not asked.
    pub const fn is_beside_the_key(&self) -> bool {
        matches!(
            self,
            Self::TenantMissing { .. }
                | Self::ProducerMissing { .. }
                | Self::ProducerFenced { .. }
                | Self::ProducerUnknown { .. }
                | Self::SequenceGap { .. }
        )
    }

    /// The reason that was kept as its code and its detail, or nothing if they belong to none.
    pub fn restore(code: &str, detail: &str) -> Option<Self> {
        let at = Box::from(detail);
        Some(match code {
            "not-json" => {
                let (offset, fault) = detail.split_once(' ')?;
                let fault = Fault::ALL
                    .into_iter()
                    .find(|known| known.as_str() == fault)?;
                Self::NotJson(JsonError {
                    fault,
                    offset: offset.parse().ok()?,
                })
            }
            "key-missing" => Self::KeyMissing { at },
            "key-null" => Self::KeyNull { at },
            "key-not-scalar" => {
                let (found, at) = detail.split_once(": ")?;
                let found = Selected::NOUNS.into_iter().find(|noun| *noun == found)?;
                Self::KeyNotScalar {
                    at: at.into(),
                    found,
                }
            }
            "key-blank" => Self::KeyBlank { at },
            "key-too-long" => Self::KeyTooLong { at },
            "key-control-character" => Self::KeyControlCharacter { at },
            "member-duplicated" => Self::MemberDuplicated { at },
            "number-too-long" => Self::NumberTooLong { at },
            "nested-too-deep" => Self::NestedTooDeep,
            "message-too-large" => {
                let (size, limit) = detail.split_once(' ')?;
                let (size_bytes, limit_bytes) = (size.parse().ok()?, limit.parse().ok()?);
                Self::MessageTooLarge {
                    size_bytes,
                    limit_bytes,
                }
            }
            "birth-missing" => Self::BirthMissing { at },
            "birth-invalid" => Self::BirthInvalid { at },
            "entity-missing" => Self::EntityMissing { at },
            "version-invalid" => Self::VersionInvalid { at },
            "tenant-missing" => Self::TenantMissing { at },
            "producer-missing" => Self::ProducerMissing { at },
            "producer-fenced" => Self::ProducerFenced { at },
            "producer-unknown" => Self::ProducerUnknown { at },
            "sequence-gap" => Self::SequenceGap { at },
            _ => return None,
        })
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(why) => write!(f, "the payload is not JSON: {why}"),
            Self::KeyMissing { at } => write!(f, "the message has no {}", Shown(at)),
            Self::KeyNull { at } => write!(f, "{} is null", Shown(at)),
            Self::KeyNotScalar { at, found } => {
                write!(f, "{} is {found}, neither a string nor a number", Shown(at))
            }
            Self::KeyBlank { at } => write!(f, "{} is blank", Shown(at)),
            Self::KeyTooLong { at } => {
                write!(
                    f,
                    "the key from {} is over {} bytes long",
                    Shown(at),
                    KEY_MAX_BYTES
                )
            }
            Self::KeyControlCharacter { at } => {
                write!(f, "{} contains a control character", Shown(at))
            }
            Self::MemberDuplicated { at } => write!(f, "a member occurs twice in {}", Shown(at)),
            Self::NumberTooLong { at } => {
                write!(f, "a number in {} has over 1,000 digits", Shown(at))
            }
            Self::NestedTooDeep => f.write_str("the payload is nested over 128 deep"),
            Self::MessageTooLarge {
                size_bytes,
                limit_bytes,
            } => {
                write!(
                    f,
                    "the message has {size_bytes} bytes, over the {limit_bytes} allowed"
                )
            }
            Self::BirthMissing { at } => {
                write!(f, "the message has no birth time at {}", Shown(at))
            }
            Self::BirthInvalid { at } => write!(f, "{} is not a time since 1970", Shown(at)),
            Self::EntityMissing { at } => write!(f, "the message has no entity at {}", Shown(at)),
            Self::VersionInvalid { at } => write!(f, "{} is not a version number", Shown(at)),
            Self::TenantMissing { at } => {
                write!(f, "the message has no usable tenant at {}", Shown(at))
            }
            Self::ProducerMissing { at } => {
                write!(
                    f,
                    "the message has no usable identity of its producer at {}",
                    Shown(at)
                )
            }
            Self::ProducerFenced { at } => {
                write!(
                    f,
                    "a later opening of the producer was heard of: {}",
                    Shown(at)
                )
            }
            Self::ProducerUnknown { at } => {
                write!(
                    f,
                    "the producer is not on record, and begins late: {}",
                    Shown(at)
                )
            }
            Self::SequenceGap { at } => {
                write!(f, "messages before this one are missing: {}", Shown(at))
            }
        }
    }
}

/// A selector as people see it: a JSON pointer may hold characters that move a cursor or break a line
/// of the log.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\'' | '"' | '\\' => write!(f, "{c}")?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Unusable {}
