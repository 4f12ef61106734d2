//! The lines of an export, member by member: `docs/spec/export.md`. Not for files or checksums.

mod record;

pub(super) use record::RecordLine;

use std::borrow::Cow;

use bytes::Bytes;
use semel_core::parked::Headers;
use semel_core::port::transfer::Item;
use semel_core::{
    Audited, ByteString, ClaimId, EntityRecord, FencingToken, Key, Mark, Note, Parked, Scope,
    Timestamp,
};
use serde::{Deserialize, Serialize};

use super::value::{Base64, Hex, Text};

/// The reason why a line that is JSON of the right shape is not an item.
pub(super) type Fault = &'static str;

/// Scopes that were read lately, so that not every line makes its scope anew.
#[derive(Default)]
pub(crate) struct Scopes(Vec<Scope>);

impl Scopes {
    fn get(&mut self, tenant: &Text<'_>, operation: &Text<'_>) -> Result<Scope, Fault> {
        let is_it =
            |scope: &Scope| *scope.operation() == *operation.0 && *scope.tenant() == *tenant.0;
        if let Some(at) = self.0.iter().position(is_it) {
            self.0.swap(0, at);
            return Ok(self.0[0].clone());
        }
        let scope = Scope::new(&tenant.0, &operation.0).map_err(|_| "the scope is none")?;
        self.0.truncate(MOST_SCOPES - 1);
        self.0.insert(0, scope.clone());
        Ok(scope)
    }
}

/// The first line, without its checksum.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeadLine<'a> {
    pub(super) semel_export: u32,
    #[serde(borrow)]
    pub(super) created: Text<'a>,
    #[serde(borrow)]
    pub(super) store: Text<'a>,
}

/// The same for a version that this one does not know.
#[derive(Deserialize)]
pub(super) struct AnyHead {
    pub(super) semel_export: u32,
}

/// The record of an entity.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntityLine<'a> {
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    tenant: Text<'a>,
    #[serde(borrow)]
    operation: Text<'a>,
    #[serde(borrow)]
    entity: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    applied: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<Hex<16>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
}

impl<'a> EntityLine<'a> {
    pub(super) fn of(scope: &'a Scope, entity: &'a Key, record: &EntityRecord) -> Self {
        Self {
            tenant: Text::of(scope.tenant()),
            operation: Text::of(scope.operation()),
            entity: Text::of(entity.as_str()),
            applied: record.applied,
            holder: record.holder.map(|(claim, _)| Hex(claim.to_bytes())),
            until: record.holder.map(|(_, until)| until.as_millis()),
        }
    }

    pub(super) fn item(&self, scopes: &mut Scopes) -> Result<Item, Fault> {
        let holder = match (self.holder, self.until) {
            (None, None) => None,
            (Some(claim), Some(until)) => {
                Some((ClaimId::from_bytes(claim.0), Timestamp::from_millis(until)))
            }
            (Some(_), None) | (None, Some(_)) => return Err("`holder` and `until` go together"),
        };
        let record = EntityRecord {
            applied: self.applied,
            holder,
        };
        let scope = scopes.get(&self.tenant, &self.operation)?;
        Ok(Item::Entity(scope, key(&self.entity)?, record))
    }
}

/// A named number.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkLine<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    value: u64,
}

impl<'a> MarkLine<'a> {
    pub(super) fn of(mark: &'a Mark) -> Self {
        Self {
            name: Text::of(&mark.name),
            value: mark.value,
        }
    }

    pub(super) fn item(&self) -> Item {
        Item::Mark(Mark {
            name: self.name.0.as_ref().into(),
            value: self.value,
        })
    }
}

/// A parked message.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParkedLine<'a> {
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    tenant: Text<'a>,
    #[serde(borrow)]
    operation: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    reason: Text<'a>,
    #[serde(borrow)]
    detail: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    transport: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transport_base64: Option<Base64<'a>>,
    #[serde(borrow)]
    coordinates: Text<'a>,
    since: u64,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<HeaderLine<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    payload: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Base64<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderLine<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    value: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<Base64<'a>>,
}

impl<'a> ParkedLine<'a> {
    pub(super) fn of(message: &'a Parked) -> Self {
        let (transport, transport_base64) = either(message.transport.as_deref());
        let (payload, payload_base64) = either(Some(&message.payload));
        Self {
            tenant: Text::of(message.scope.tenant()),
            operation: Text::of(message.scope.operation()),
            key: message.key.as_ref().map(|key| Text::of(key.as_str())),
            reason: Text::of(&message.reason),
            detail: Text::of(&message.detail),
            transport,
            transport_base64,
            coordinates: Text::of(&message.coordinates),
            since: message.since.as_millis(),
            headers: message.headers.iter().map(HeaderLine::of).collect(),
            payload,
            payload_base64,
        }
    }

    pub(super) fn item(&self, scopes: &mut Scopes) -> Result<Item, Fault> {
        let headers = self.headers.iter().map(HeaderLine::header);
        Ok(Item::Parked(Box::new(Parked {
            scope: scopes.get(&self.tenant, &self.operation)?,
            key: self.key.as_ref().map(key).transpose()?,
            reason: self.reason.boxed(),
            detail: self.detail.boxed(),
            transport: bytes(self.transport.as_ref(), self.transport_base64.as_ref())?,
            coordinates: self.coordinates.boxed().into(),
            headers: headers.collect::<Result<Headers, Fault>>()?,
            payload: bytes(self.payload.as_ref(), self.payload_base64.as_ref())?
                .ok_or("a message needs a payload")?,
            since: Timestamp::from_millis(self.since),
        })))
    }
}

impl<'a> HeaderLine<'a> {
    fn of((name, value): &'a (ByteString, Bytes)) -> Self {
        let (value, value_base64) = either(Some(value));
        Self {
            name: Text::of(name),
            value,
            value_base64,
        }
    }

    fn header(&self) -> Result<(ByteString, Bytes), Fault> {
        let value = bytes(self.value.as_ref(), self.value_base64.as_ref())?;
        Ok((
            self.name.boxed().into(),
            value.ok_or("a header needs a value")?,
        ))
    }
}

/// An entry of the audit trail.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditedLine<'a> {
    at: u64,
    #[serde(borrow)]
    by: Text<'a>,
    #[serde(borrow)]
    reason: Text<'a>,
    #[serde(borrow)]
    action: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    tenant: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    operation: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    before: Text<'a>,
    #[serde(borrow)]
    after: Text<'a>,
}

impl<'a> AuditedLine<'a> {
    pub(super) fn of(entry: &'a Audited) -> Self {
        let scope = entry.scope.as_ref();
        Self {
            at: entry.at.as_millis(),
            by: Text::of(&entry.note.by),
            reason: Text::of(&entry.note.reason),
            action: Text::of(&entry.action),
            tenant: Text::of(scope.map_or("", Scope::tenant)),
            operation: scope.map(|scope| Text::of(scope.operation())),
            key: entry.key.as_ref().map(|key| Text::of(key.as_str())),
            before: Text::of(&entry.before),
            after: Text::of(&entry.after),
        }
    }

    pub(super) fn item(&self, scopes: &mut Scopes) -> Result<Item, Fault> {
        let scope = match &self.operation {
            Some(operation) => Some(scopes.get(&self.tenant, operation)?),
            None if self.tenant.is_empty() => None,
            None => return Err("a tenant needs an operation"),
        };
        Ok(Item::Audited(Box::new(Audited {
            at: Timestamp::from_millis(self.at),
            note: Note {
                by: self.by.boxed(),
                reason: self.reason.boxed(),
            },
            action: self.action.boxed(),
            scope,
            key: self.key.as_ref().map(key).transpose()?,
            before: self.before.boxed(),
            after: self.after.boxed(),
        })))
    }
}

/// The fencing token up to which all are used.
pub(super) const fn token(number: u64) -> Item {
    Item::Token(FencingToken::new(number))
}

fn key(text: &Text<'_>) -> Result<Key, Fault> {
    let text = Bytes::copy_from_slice(text.0.as_bytes());
    Key::from_canonical(text).ok_or("the key is no text")
}

/// Bytes, as the one of two members that can represent them.
fn either(bytes: Option<&[u8]>) -> (Option<Text<'_>>, Option<Base64<'_>>) {
    match bytes.map(std::str::from_utf8) {
        None => (None, None),
        Some(Ok(text)) => (Some(Text::of(text)), None),
        Some(Err(_)) => (None, bytes.map(|bytes| Base64(Cow::Borrowed(bytes)))),
    }
}

fn bytes(text: Option<&Text<'_>>, base64: Option<&Base64<'_>>) -> Result<Option<Bytes>, Fault> {
    match (text, base64) {
        (None, None) => Ok(None),
        (Some(text), None) => Ok(Some(Bytes::copy_from_slice(text.0.as_bytes()))),
        (None, Some(base64)) => Ok(Some(Bytes::copy_from_slice(&base64.0))),
        (Some(_), Some(_)) => Err("bytes are either text or base64"),
    }
}

/// The number of scopes that are kept; more are made anew now and then.
const MOST_SCOPES: usize = 16;
