//! The parts of messages: types of core under the names that they have in JSON.

use std::num::NonZeroU32;

use bytes::Bytes;
use semel_core::{
    AttemptLimits, Certainty, ClaimId, Code, Error, ErrorKind, Key, Note, Operation, Outcome,
    Result, Scope, StateKind, Timestamp, VersionGate, Window,
};
use serde::{Deserialize, Serialize};

use crate::control::unlike;
use crate::transfer::value::{Base64, Hex, Span};

/// Bytes.
pub(super) type Blob = Base64<'static>;

pub(super) fn blob(bytes: &[u8]) -> Blob {
    Base64(bytes.to_vec().into())
}

pub(super) fn bytes(blob: Blob) -> Bytes {
    blob.0.into_owned().into()
}

/// An operation by its names.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Named {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    tenant: String,
    operation: String,
    key: String,
}

impl Named {
    pub(super) fn of(operation: &Operation) -> Self {
        Self {
            tenant: operation.scope.tenant().to_owned(),
            operation: operation.scope.operation().to_owned(),
            key: operation.key.as_str().to_owned(),
        }
    }

    pub(super) fn operation(self) -> Result<Operation> {
        let scope = scope(&self.tenant, &self.operation)?;
        Ok(Operation::new(scope, key(self.key)?))
    }
}

fn scope(tenant: &str, operation: &str) -> Result<Scope> {
    Scope::new(tenant, operation).map_err(|_| unlike("a scope that is none"))
}

pub(super) fn key(text: String) -> Result<Key> {
    Key::from_canonical(text.into()).ok_or_else(|| unlike("a key that is none"))
}

pub(super) fn state(name: &str) -> Result<StateKind> {
    let mut states = StateKind::ALL.into_iter();
    states
        .find(|state| state.as_str() == name)
        .ok_or_else(|| unlike("a state that nobody knows"))
}

pub(super) const fn millis(at: Timestamp) -> u64 {
    at.as_millis()
}

pub(super) const fn instant(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(super) const fn claim_id(hex: Hex<16>) -> ClaimId {
    ClaimId::from_bytes(hex.0)
}

/// A window with its margin.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    duration: Span,
    margin: Span,
}

impl Kept {
    pub(super) const fn of(window: Window) -> Self {
        Self {
            duration: Span(window.duration()),
            margin: Span(window.margin()),
        }
    }

    pub(super) const fn window(self) -> Window {
        Window::new(self.duration.0).with_margin(self.margin.0)
    }
}

/// Caps of attempts.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Caps {
    failed: NonZeroU32,
    vanished: NonZeroU32,
}

impl Caps {
    pub(super) const fn of(limits: AttemptLimits) -> Self {
        Self {
            failed: limits.failed,
            vanished: limits.vanished,
        }
    }

    pub(super) const fn limits(self) -> AttemptLimits {
        AttemptLimits {
            failed: self.failed,
            vanished: self.vanished,
        }
    }
}

/// A version gate.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Gate {
    entity: String,
    version: u64,
}

impl Gate {
    pub(super) fn of(gate: &VersionGate) -> Self {
        Self {
            entity: gate.entity.as_str().to_owned(),
            version: gate.version,
        }
    }

    pub(super) fn gate(self) -> Result<VersionGate> {
        Ok(VersionGate {
            entity: key(self.entity)?,
            version: self.version,
        })
    }
}

/// An outcome.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Remembered {
    Kept { codec: u16, bytes: Blob },
    TooLarge { len_bytes: u64, digest: Hex<32> },
}

impl Remembered {
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Kept { codec, bytes } => Self::Kept {
                codec: *codec,
                bytes: blob(bytes),
            },
            Outcome::TooLarge { len_bytes, digest } => Self::TooLarge {
                len_bytes: *len_bytes,
                digest: Hex(*digest),
            },
        }
    }

    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Kept { codec, bytes: kept } => Outcome::Kept {
                codec,
                bytes: bytes(kept),
            },
            Self::TooLarge { len_bytes, digest } => Outcome::TooLarge {
                len_bytes,
                digest: digest.0,
            },
        }
    }
}

/// The author of an order and the reason.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Who {
    by: String,
    reason: String,
}

impl Who {
    pub(super) fn of(note: &Note) -> Self {
        Self {
            by: (*note.by).to_owned(),
            reason: (*note.reason).to_owned(),
        }
    }

    pub(super) fn note(self) -> Note {
        Note {
            by: self.by.into(),
            reason: self.reason.into(),
        }
    }
}

/// A failure, with the first of its causes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    kind: String,
    code: String,
    is_applied: bool,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

impl Failure {
    pub(super) fn of(error: &Error) -> Self {
        let cause = std::error::Error::source(error);
        Self {
            // Each kind has a code of its own.
            kind: error.kind().code().as_str().to_owned(),
            code: error.code().as_str().to_owned(),
            is_applied: error.certainty() == Certainty::MaybeApplied,
            message: error.to_string(),
            cause: cause.map(ToString::to_string),
        }
    }

    pub(super) fn error(self) -> Error {
        let kind = KINDS
            .into_iter()
            .find(|kind| kind.code().as_str() == self.kind);
        let error = Error::new(kind.unwrap_or(ErrorKind::Internal), self.message);
        let code = Code::ALL.iter().find(|code| code.as_str() == self.code);
        let error = match code {
            Some(code) => error.with_code(*code),
            None => error,
        };
        let error = if self.is_applied {
            error
        } else {
            error.not_applied()
        };
        match self.cause {
            Some(cause) => error.with_source(std::io::Error::other(cause)),
            None => error,
        }
    }
}

const KINDS: [ErrorKind; 11] = [
    ErrorKind::InvalidInput,
    ErrorKind::InvalidConfig,
    ErrorKind::Unsupported,
    ErrorKind::ClaimLost,
    ErrorKind::Conflict,
    ErrorKind::Throttled,
    ErrorKind::Unavailable,
    ErrorKind::Timeout,
    ErrorKind::Corrupt,
    ErrorKind::Poisoned,
    ErrorKind::Internal,
];
