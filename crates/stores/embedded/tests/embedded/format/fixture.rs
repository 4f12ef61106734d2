//! One of everything, written to a store and read back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_conformance::TestClock;
use semel_core::decide::{Directive, Order};
use semel_core::port::checkpoint::CheckpointStore;
use semel_core::port::store::{ListQuery, Listed};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    AttemptLimits, Audited, Certainty, ClaimId, ClaimRequest, Code, EntityRecord, FencingToken,
    Fingerprint, Key, Mark, Members, Note, Operation, Outcome, Parked, Record, Recovery, Result,
    Scope, Settlement, Start, State, Step, Store, Timestamp, VersionGate, Window,
};
use semel_store_embedded::{EmbeddedStore, Options};

use super::{block_on, copy, folder, open};

#[derive(Debug, PartialEq)]
pub(crate) struct Everything {
    pub(crate) records: BTreeMap<String, Result<Record, Code>>,
    parked: Result<Vec<Parked>, Code>,
    pub(crate) audit: Result<Vec<Audited>, Code>,
    mark: Option<u64>,
}

impl Everything {
    /// Returns whether every difference from `whole` is known to be damaged.
    pub(crate) fn is_damage_of(&self, whole: &Self) -> bool {
        let records = self
            .records
            .iter()
            .all(|(key, record)| record.is_err() || whole.records.get(key) == Some(record));
        let parked = self.parked.is_err() || self.parked == whole.parked;
        let audit = self.audit.is_err() || self.audit == whole.audit;
        records
            && parked
            && audit
            && self.records.len() == whole.records.len()
            && self.mark == whole.mark
    }

    /// Removes the parts that version 1 did not keep.
    pub(crate) fn without_what_version_1_lacked(self) -> Self {
        let records = self.records.into_iter().map(|(key, record)| {
            let record = record.map(|record| Record {
                past: Vec::new(),
                ..record
            });
            (key, record)
        });
        Self {
            records: records.collect(),
            audit: Ok(Vec::new()),
            ..self
        }
    }
}

/// Writes one of everything, and closes the store in good order.
pub(crate) fn write_everything(dir: &Path) {
    let store = open(dir).expect("an empty folder becomes a store");
    let limits = AttemptLimits::default();
    let window = Window::new(Duration::from_secs(3_600));
    let full = ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: 7,
            digest: [3; 16],
        }),
        members: None,
        transport: Some(Bytes::from_static(b"topic/1/42")),
        gate: Some(VersionGate {
            entity: Key::from(5),
            version: 9,
        }),
        ..request("completed")
    };
    let marked = |key, recovery| ClaimRequest {
        start: Start::Marked(recovery),
        ..request(key)
    };
    let within = Recovery::RerunWithin(Duration::from_millis(1_500));
    let requests = [
        full,
        marked("started", within),
        marked("in doubt", Recovery::Park),
        request("dead"),
        request("released"),
        request("held"),
        request("forgotten"),
    ];
    let _ = block_on(store.claim(requests.into())).expect("claims");
    let kept = |bytes: &'static [u8]| Outcome::Kept {
        codec: 4,
        bytes: Bytes::from_static(bytes),
    };
    let complete = |outcome| Step::Complete { outcome, window };
    let release = |certainty| Step::Release {
        error: "no route".into(),
        certainty,
        after: Duration::from_secs(4),
        counted: true,
        limits,
        window,
    };
    let steps = [
        ("completed", complete(kept(b"charged"))),
        ("in doubt", release(Certainty::MaybeApplied)),
        (
            "dead",
            Step::Fail {
                decisive: false,
                error: "card refused".into(),
                window: window.with_margin(Duration::ZERO),
            },
        ),
        ("released", release(Certainty::NotApplied)),
        (
            "forgotten",
            complete(Outcome::TooLarge {
                len_bytes: 1 << 40,
                digest: [8; 32],
            }),
        ),
    ];
    let settlements = steps.map(|(key, step)| settlement(key, step));
    let _ = block_on(store.settle(settlements.clone().into())).expect("settlements");
    let mark = Mark {
        name: "out.ndjson".into(),
        value: 1 << 33,
    };
    let held = [settlement("held", complete(kept(b"kept")))];
    let _ = block_on(store.settle_with(held.clone().into(), &mark)).expect("a mark");
    let directive = |key, order| Directive {
        operation: request(key).operation,
        order,
        note: Some(note()),
    };
    let orders = [
        directive("held", Order::Hold(true)),
        directive("forgotten", Order::Forget),
    ];
    let _ = block_on(store.operate(orders.clone().into())).expect("orders");
    let dropped = Parked {
        coordinates: "elsewhere".into(),
        ..parked()
    };
    let _ = block_on(store.park([parked(), dropped.clone()].into())).expect("parked");
    let _ = block_on(store.drop_parked([dropped.id()].into(), Some(&note()))).expect("dropped");
}

/// Writes the parts that came with version 2: a second attempt, an admission, an import.
pub(crate) fn write_more(dir: &Path) {
    let clock = TestClock::new();
    clock.advance(Duration::from_secs(10));
    let options = Options::default();
    let store = EmbeddedStore::open(dir, Arc::new(clock), options).expect("it opens");
    let again = ClaimRequest {
        claim_id: ClaimId::from_u128(77),
        start: Start::Marked(Recovery::Park),
        ..request("released")
    };
    let _ = block_on(store.claim([again].into())).expect("a second claim");
    let mark = Mark {
        name: "admitted".into(),
        value: 1,
    };
    let admitted = store.admit_with(vec![request("admitted")], Box::new(|_| Ok(mark)));
    let _ = block_on(admitted).expect("an admission");
    let listed = |key, state| {
        let claimed_at = Timestamp::from_millis(1_000);
        let ClaimRequest {
            operation,
            claim_id,
            ..
        } = request(key);
        let record = Record {
            state,
            fingerprint: None,
            members: None,
            transport: None,
            claim_id,
            token: FencingToken::new(0),
            claimed_at,
            attempts: 1,
            vanished: 0,
            possible_repeats: 0,
            doubt: None,
            past: Vec::new(),
            created_at: claimed_at,
            first_started_at: None,
            last_error: None,
            gate: None,
            held: false,
            outcome: None,
        };
        Item::Record(Box::new(Listed { operation, record }))
    };
    let lease_until = Timestamp::from_millis(1_900_000_000_000);
    let since = Timestamp::from_millis(1_500);
    let entity = EntityRecord {
        applied: Some(3),
        holder: Some((ClaimId::from_u128(8), lease_until)),
    };
    let items = [
        listed("moved, claimed", State::Claimed { lease_until }),
        listed("moved, dead", dead()),
        listed("moved, in doubt", State::InDoubt { since }),
        Item::Entity(request("").operation.scope, Key::from(6), entity),
        Item::Parked(Box::new(Parked {
            coordinates: "moved".into(),
            since,
            ..parked()
        })),
        Item::Audited(Box::new(Audited {
            at: since,
            note: note(),
            action: "import".into(),
            scope: None,
            key: None,
            before: "absent".into(),
            after: "3 records".into(),
        })),
        Item::Token(FencingToken::new(9 << 40)),
    ];
    let _ = block_on(store.import(items.into())).expect("an import");
    let operation = request("held").operation;
    let order = Order::Hold(true);
    let note = Some(note());
    let hold = Directive {
        operation,
        order,
        note,
    };
    let _ = block_on(store.operate([hold].into())).expect("an order");
}

/// Writes the parts that came with version 3.
pub(crate) fn write_members(dir: &Path) {
    let store = open(dir).expect("it opens");
    let request = ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: 7,
            digest: [3; 16],
        }),
        members: members(),
        ..request("with members")
    };
    let _ = block_on(store.claim([request].into())).expect("a claim");
    let step = Step::Complete {
        outcome: Outcome::empty(),
        window: Window::new(Duration::from_secs(3_600)),
    };
    let settlement = settlement("with members", step);
    let _ = block_on(store.settle([settlement].into())).expect("a settlement");
}

pub(crate) fn members() -> Option<Members> {
    Members::from_bytes(&[1, 2, 3, 4, 5])
}

fn dead() -> State {
    State::Dead {
        at: Timestamp::from_millis(1_900_000_000_000),
        window: Window::DEFAULT,
    }
}

pub(crate) fn read_copy(dir: &Path) -> Result<Everything> {
    let copied = folder();
    copy(dir, copied.path());
    read_everything(copied.path())
}

pub(crate) fn read_everything(dir: &Path) -> Result<Everything> {
    let store = open(dir)?;
    let keys = [
        "completed",
        "started",
        "in doubt",
        "dead",
        "released",
        "held",
        "forgotten",
        "admitted",
        "moved, claimed",
        "moved, dead",
        "moved, in doubt",
        "with members",
    ];
    let mut records = BTreeMap::new();
    for key in keys {
        let operation: Operation = request(key).operation;
        match block_on(store.get([operation].into())) {
            Ok(found) => {
                for record in found.into_iter().flatten() {
                    records.insert(key.to_owned(), Ok(without_token(record)));
                }
            }
            Err(error) => {
                records.insert(key.to_owned(), Err(error.code()));
            }
        }
    }
    let query = ListQuery {
        limit: 10,
        ..ListQuery::default()
    };
    let parked = block_on(store.list_parked(&query)).map(|page| page.items);
    let parked = parked.map_err(|error| error.code());
    Ok(Everything {
        records,
        parked,
        audit: block_on(store.list_audit(&query))
            .map(|page| page.items)
            .map_err(|error| error.code()),
        mark: block_on(store.mark("out.ndjson"))?,
    })
}

/// Removes the token, which depends on how often the store was opened before.
fn without_token(record: Record) -> Record {
    Record {
        token: semel_core::FencingToken::new(0),
        ..record
    }
}

pub(crate) fn request(key: &str) -> ClaimRequest {
    let scope = Scope::new("tenant", "charges").expect("a scope");
    ClaimRequest::new(
        scope,
        Key::parse(key).expect("a key"),
        ClaimId::from_u128(key.len() as u128),
    )
}

pub(crate) fn settlement(key: &str, step: Step) -> Settlement {
    let ClaimRequest {
        operation,
        claim_id,
        ..
    } = request(key);
    Settlement {
        operation,
        claim_id,
        step,
    }
}

pub(crate) fn note() -> Note {
    Note {
        by: "on call".into(),
        reason: "the bank asked".into(),
    }
}

pub(crate) fn parked() -> Parked {
    Parked {
        scope: Scope::new("tenant", "charges").expect("a scope"),
        key: Some(Key::from(5)),
        reason: "too-old".into(),
        detail: "born yesterday".into(),
        transport: Some(Bytes::from_static(b"t")),
        coordinates: "orders/3/17".into(),
        headers: Vec::new(),
        payload: Bytes::from_static(b"{\"id\":5}"),
        since: Timestamp::EPOCH,
    }
}
