//! How a record is written.

use bytes::Bytes;
use semel_core::{
    ClaimId, FencingToken, Fingerprint, Key, Operation, Outcome, Record, Recovery, Scope, State,
    StateKind, VersionGate, Window,
};

use crate::wire::{Put, Take};

/// Tenant, operation name and key, each with its length: what places an operation, what begins its
/// entries, and what is compared byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity<'a>(pub(crate) &'a [u8]);

impl<'a> Identity<'a> {
    /// The three parts.
    pub(crate) fn parts(self) -> Option<(&'a str, &'a str, &'a [u8])> {
        let mut take = Take::new(self.0);
        Some((take.text()?, take.text()?, take.bytes()?))
    }

    /// The operation, in memory of its own.
    pub(crate) fn operation(self) -> Option<Operation> {
        let (tenant, operation, key) = self.parts()?;
        let scope = Scope::new(tenant, operation).ok()?;
        Some(Operation::new(
            scope,
            Key::from_canonical(Bytes::copy_from_slice(key))?,
        ))
    }
}

/// Writes an identity.
pub(crate) fn put_identity(buffer: &mut Vec<u8>, scope: &Scope, key: &Key) {
    buffer.put_bytes(scope.tenant().as_bytes());
    buffer.put_bytes(scope.operation().as_bytes());
    buffer.put_bytes(key.as_bytes());
}

/// Writes the meta part of a record; answers what belongs into the tail.
pub(crate) fn put_record<'r>(
    buffer: &mut Vec<u8>,
    identity: Identity<'_>,
    record: &'r Record,
) -> &'r [u8] {
    buffer.extend_from_slice(identity.0);
    buffer.extend_from_slice(&flags_of(record).to_le_bytes());
    match record.state {
        State::Claimed { lease_until } => buffer.put_number(lease_until.as_millis()),
        State::Started {
            lease_until,
            recovery,
        } => {
            buffer.put_number(lease_until.as_millis());
            buffer.push(recovery_code(recovery));
            put_provider_window(buffer, recovery);
        }
        State::Released { not_before } => buffer.put_number(not_before.as_millis()),
        State::Completed { at, window } | State::Dead { at, window } => {
            buffer.put_number(at.as_millis());
            buffer.put_duration(window.duration());
            if !has_default_margin(window) {
                buffer.put_duration(window.margin());
            }
        }
        State::InDoubt { since } => buffer.put_number(since.as_millis()),
    }
    buffer.extend_from_slice(&record.claim_id.to_bytes());
    buffer.put_number(record.token.get());
    buffer.put_number(u64::from(record.attempts));
    buffer.put_number(u64::from(record.vanished));
    buffer.put_number(u64::from(record.possible_repeats));
    buffer.put_number(record.created_at.as_millis());
    if let Some(recovery) = record.doubt {
        put_provider_window(buffer, recovery);
    }
    if let Some(at) = record.first_started_at {
        buffer.put_number(at.as_millis());
    }
    if let Some(fingerprint) = record.fingerprint {
        buffer.extend_from_slice(&fingerprint.to_bytes());
    }
    if let Some(transport) = &record.transport {
        buffer.put_bytes(transport);
    }
    if let Some(error) = &record.last_error {
        buffer.put_bytes(error.as_bytes());
    }
    if let Some(gate) = &record.gate {
        buffer.put_bytes(gate.entity.as_bytes());
        buffer.put_number(gate.version);
    }
    match &record.outcome {
        None => &[],
        Some(Outcome::Kept { codec, bytes }) => {
            buffer.put_number(u64::from(*codec));
            bytes
        }
        Some(Outcome::TooLarge { len_bytes, digest }) => {
            buffer.put_number(*len_bytes);
            buffer.extend_from_slice(digest);
            &[]
        }
    }
}

/// A record as it was read: everything but the bytes of a kept outcome, which are the tail.
#[derive(Debug)]
pub(crate) struct RecordBody<'a> {
    pub(crate) identity: Identity<'a>,
    rest: Take<'a>,
}

impl<'a> RecordBody<'a> {
    /// Splits the identity off, which is all that a comparison needs.
    pub(crate) fn new(meta: &'a [u8]) -> Option<Self> {
        let mut take = Take::new(meta);
        for _ in 0..3 {
            take.bytes()?;
        }
        let identity = Identity(&meta[..meta.len() - take.len()]);
        Some(Self {
            identity,
            rest: take,
        })
    }

    /// Whether there is an outcome, read or not.
    pub(crate) fn has_outcome(&self) -> bool {
        let mut take = self.rest;
        take.u16()
            .is_some_and(|flags| (flags >> OUTCOME_SHIFT) & 3 != 0)
    }

    /// The record; its outcome has the bytes of `tail`, or is left out where no tail was read.
    pub(crate) fn record(&self, tail: Option<&[u8]>) -> Option<Record> {
        let mut take = self.rest;
        let flags = take.u16()?;
        let state = take_state(&mut take, flags)?;
        let claim_id = ClaimId::from_bytes(take.array()?);
        let token = FencingToken::new(take.number()?);
        let attempts = take.small()?;
        let vanished = take.small()?;
        let possible_repeats = take.small()?;
        let created_at = take.timestamp()?;
        let doubt = match (flags >> DOUBT_SHIFT) & 3 {
            0 => None,
            code => Some(take_recovery(&mut take, u8::try_from(code - 1).ok()?)?),
        };
        let first_started_at = take_if(flags & FIRST_STARTED, || take.timestamp()).ok()?;
        let fingerprint = take_if(flags & FINGERPRINT, || {
            take.array().map(Fingerprint::from_bytes)
        })
        .ok()?;
        let transport = take_if(flags & TRANSPORT, || {
            take.bytes().map(Bytes::copy_from_slice)
        })
        .ok()?;
        let last_error = take_if(flags & LAST_ERROR, || take.text().map(Box::from)).ok()?;
        let gate = take_if(flags & GATE, || {
            let entity = Key::from_canonical(Bytes::copy_from_slice(take.bytes()?))?;
            Some(VersionGate {
                entity,
                version: take.number()?,
            })
        })
        .ok()?;
        let outcome = match (flags >> OUTCOME_SHIFT) & 3 {
            0 => None,
            1 => {
                let codec = u16::try_from(take.number()?).ok()?;
                tail.map(|tail| Outcome::Kept {
                    codec,
                    bytes: Bytes::copy_from_slice(tail),
                })
            }
            2 => Some(Outcome::TooLarge {
                len_bytes: take.number()?,
                digest: take.array()?,
            }),
            _ => return None,
        };
        take.is_empty().then_some(Record {
            state,
            fingerprint,
            transport,
            claim_id,
            token,
            attempts,
            vanished,
            possible_repeats,
            doubt,
            created_at,
            first_started_at,
            last_error,
            gate,
            held: flags & HELD != 0,
            outcome: outcome.filter(|_| tail.is_some()),
        })
    }
}

/// Takes what is there only with its flag.
fn take_if<T>(flag: u16, take: impl FnOnce() -> Option<T>) -> Result<Option<T>, Cut> {
    if flag == 0 {
        Ok(None)
    } else {
        take().map(Some).ok_or(Cut)
    }
}

/// What should be there is not.
struct Cut;

fn take_state(take: &mut Take<'_>, flags: u16) -> Option<State> {
    let at = take.timestamp()?;
    let state = match StateKind::ALL.get(usize::from(flags & STATE))? {
        StateKind::Claimed => State::Claimed { lease_until: at },
        StateKind::Started => {
            let code = take.byte()?;
            State::Started {
                lease_until: at,
                recovery: take_recovery(take, code)?,
            }
        }
        StateKind::Released => State::Released { not_before: at },
        StateKind::Completed => State::Completed {
            at,
            window: take_window(take, flags)?,
        },
        StateKind::Dead => State::Dead {
            at,
            window: take_window(take, flags)?,
        },
        StateKind::InDoubt => State::InDoubt { since: at },
    };
    Some(state)
}

fn take_window(take: &mut Take<'_>, flags: u16) -> Option<Window> {
    let window = Window::new(take.duration()?);
    if flags & OWN_MARGIN == 0 {
        return Some(window);
    }
    Some(window.with_margin(take.duration()?))
}

fn take_recovery(take: &mut Take<'_>, code: u8) -> Option<Recovery> {
    match code {
        0 => Some(Recovery::Rerun),
        1 => take.duration().map(Recovery::RerunWithin),
        2 => Some(Recovery::Park),
        _ => None,
    }
}

const fn recovery_code(recovery: Recovery) -> u8 {
    match recovery {
        Recovery::Rerun => 0,
        Recovery::RerunWithin(_) => 1,
        Recovery::Park => 2,
    }
}

fn put_provider_window(buffer: &mut Vec<u8>, recovery: Recovery) {
    if let Recovery::RerunWithin(window) = recovery {
        buffer.put_duration(window);
    }
}

fn has_default_margin(window: Window) -> bool {
    Window::new(window.duration()) == window
}

fn flags_of(record: &Record) -> u16 {
    let (state, own_margin) = match record.state {
        State::Claimed { .. } => (0, false),
        State::Started { .. } => (1, false),
        State::Released { .. } => (2, false),
        State::Completed { window, .. } => (3, !has_default_margin(window)),
        State::Dead { window, .. } => (4, !has_default_margin(window)),
        State::InDoubt { .. } => (5, false),
    };
    let doubt = record
        .doubt
        .map_or(0, |recovery| u16::from(recovery_code(recovery)) + 1);
    let outcome = match record.outcome {
        None => 0,
        Some(Outcome::Kept { .. }) => 1,
        Some(Outcome::TooLarge { .. }) => 2,
    };
    let when = |is: bool, flag: u16| if is { flag } else { 0 };
    state
        | doubt << DOUBT_SHIFT
        | outcome << OUTCOME_SHIFT
        | when(own_margin, OWN_MARGIN)
        | when(record.first_started_at.is_some(), FIRST_STARTED)
        | when(record.fingerprint.is_some(), FINGERPRINT)
        | when(record.transport.is_some(), TRANSPORT)
        | when(record.last_error.is_some(), LAST_ERROR)
        | when(record.gate.is_some(), GATE)
        | when(record.held, HELD)
}

const STATE: u16 = 7;
const DOUBT_SHIFT: u16 = 3;
const OUTCOME_SHIFT: u16 = 5;
const OWN_MARGIN: u16 = 1 << 7;
const FIRST_STARTED: u16 = 1 << 8;
const FINGERPRINT: u16 = 1 << 9;
const TRANSPORT: u16 = 1 << 10;
const LAST_ERROR: u16 = 1 << 11;
const GATE: u16 = 1 << 12;
const HELD: u16 = 1 << 13;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use semel_core::Timestamp;

    use super::*;

    fn fullest() -> Record {
        Record {
            state: State::Completed {
                at: Timestamp::from_millis(1_795_257_180_123),
                window: Window::new(Duration::from_secs(80)).with_margin(Duration::from_nanos(7)),
            },
            fingerprint: Some(Fingerprint {
                scheme: 3,
                digest: [9; 16],
            }),
            transport: Some(Bytes::from_static(b"t-1")),
            claim_id: ClaimId::from_u128(5),
            token: FencingToken::new((7 << 40) + 3),
            attempts: 2,
            vanished: 1,
            possible_repeats: 4,
            doubt: Some(Recovery::RerunWithin(Duration::from_millis(1_500))),
            created_at: Timestamp::from_millis(11),
            first_started_at: Some(Timestamp::from_millis(12)),
            last_error: Some("oh no".into()),
            gate: Some(VersionGate {
                entity: Key::from_canonical(Bytes::from_static(b"e")).expect("UTF-8"),
                version: 8,
            }),
            held: true,
            outcome: Some(Outcome::Kept {
                codec: 6,
                bytes: Bytes::from_static(b"done"),
            }),
        }
    }

    #[test]
    fn every_field_comes_back() {
        let mut records = vec![fullest()];
        let at = Timestamp::from_millis(77);
        for state in [
            State::Claimed { lease_until: at },
            State::Started {
                lease_until: at,
                recovery: Recovery::Rerun,
            },
            State::Started {
                lease_until: at,
                recovery: Recovery::RerunWithin(Duration::from_secs(3)),
            },
            State::Started {
                lease_until: at,
                recovery: Recovery::Park,
            },
            State::Released { not_before: at },
            State::Dead {
                at,
                window: Window::DEFAULT,
            },
            State::InDoubt { since: at },
        ] {
            let outcome = Some(Outcome::TooLarge {
                len_bytes: 9,
                digest: [1; 32],
            });
            records.push(Record {
                state,
                outcome,
                ..fullest()
            });
            records.push(Record {
                state,
                fingerprint: None,
                transport: None,
                doubt: None,
                first_started_at: None,
                last_error: None,
                gate: None,
                held: false,
                outcome: None,
                ..fullest()
            });
        }
        for record in records {
            let mut meta = Vec::new();
            let mut identity = Vec::new();
            identity.put_bytes(b"tenant");
            identity.put_bytes(b"operation");
            identity.put_bytes(b"key");
            let tail = put_record(&mut meta, Identity(&identity), &record).to_vec();
            let body = RecordBody::new(&meta).expect("an identity");
            assert_eq!(body.identity, Identity(&identity));
            assert_eq!(body.record(Some(&tail)), Some(record.clone()));
            assert_eq!(
                body.record(None),
                Some(Record {
                    outcome: None,
                    ..record
                })
            );
            for cut in 0..meta.len() {
                let cut = RecordBody::new(&meta[..cut]).and_then(|body| body.record(Some(&tail)));
                assert_eq!(cut, None);
            }
        }
    }
}
