//! Encoding of the audit trail's entries.

use bytes::Bytes;
use semel_core::{Audited, Key, Note, Scope};

use crate::wire::{Put, Take};

/// An entry of the audit trail.
#[derive(Debug)]
pub(crate) struct AuditedBody {
    /// Number that rises with every entry over both logs; lists are in this order.
    pub(crate) order: u64,
    pub(crate) audited: Audited,
}

impl AuditedBody {
    pub(crate) fn decode(meta: &[u8]) -> Option<Self> {
        let mut take = Take::new(meta);
        let order = take.number()?;
        let at = take.timestamp()?;
        let flags = take.byte()?;
        let scope = if flags & SCOPE == 0 {
            None
        } else {
            Some(Scope::new(take.text()?, take.text()?).ok()?)
        };
        let key = if flags & KEY == 0 {
            None
        } else {
            Some(Key::from_canonical(Bytes::copy_from_slice(take.bytes()?))?)
        };
        let audited = Audited {
            at,
            scope,
            key,
            note: Note {
                by: take.text()?.into(),
                reason: take.text()?.into(),
            },
            action: take.text()?.into(),
            before: take.text()?.into(),
            after: take.text()?.into(),
        };
        (take.is_empty() && flags & !(SCOPE | KEY) == 0).then_some(Self { order, audited })
    }

    /// Reads the order alone.
    pub(crate) fn order_of(meta: &[u8]) -> Option<u64> {
        Take::new(meta).number()
    }
}

pub(crate) fn put_audited(buffer: &mut Vec<u8>, order: u64, audited: &Audited) {
    buffer.put_number(order);
    put_contents(buffer, audited);
}

/// Writes everything but the order: two entries with equal contents are the same.
pub(crate) fn put_contents(buffer: &mut Vec<u8>, audited: &Audited) {
    let Audited {
        at,
        note,
        action,
        scope,
        key,
        before,
        after,
    } = audited;
    buffer.put_number(at.as_millis());
    let flag = |is_there, flag| if is_there { flag } else { 0 };
    buffer.push(flag(scope.is_some(), SCOPE) | flag(key.is_some(), KEY));
    if let Some(scope) = scope {
        buffer.put_bytes(scope.tenant().as_bytes());
        buffer.put_bytes(scope.operation().as_bytes());
    }
    if let Some(key) = key {
        buffer.put_bytes(key.as_bytes());
    }
    for text in [&note.by, &note.reason, action, before, after] {
        buffer.put_bytes(text.as_bytes());
    }
}

const SCOPE: u8 = 1;
const KEY: u8 = 1 << 1;

#[cfg(test)]
mod tests {
    use semel_core::Timestamp;

    use super::*;

    #[test]
    fn audit_entries_come_back_as_they_were() {
        let full = Audited {
            at: Timestamp::from_millis(1_795_257_180_123),
            note: Note {
                by: "root".into(),
                reason: "asked for by the bank".into(),
            },
            action: "requeue".into(),
            scope: Some(Scope::new("tenant", "charges").expect("a scope")),
            key: Some(Key::from(7)),
            before: "dead".into(),
            after: "released".into(),
        };
        let bare = Audited {
            scope: None,
            key: None,
            ..full.clone()
        };
        for audited in [full, bare] {
            let mut meta = Vec::new();
            put_audited(&mut meta, 300, &audited);
            let body = AuditedBody::decode(&meta).expect("an entry");
            assert_eq!((body.order, &body.audited), (300, &audited));
            assert_eq!(AuditedBody::order_of(&meta), Some(300));
            for cut in 0..meta.len() {
                assert!(AuditedBody::decode(&meta[..cut]).is_none());
            }
        }
    }
}
