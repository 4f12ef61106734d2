//! A scripted life of a store, and what must be found after each step of it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_conformance::TestClock;
use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::checkpoint::{CheckpointStore, Together};
use semel_core::port::store::ListQuery;
use semel_core::*;
use semel_store_embedded::{EmbeddedStore, Options};

use crate::disk::Disk;

/// One step of the life.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Claims keys; `true` is marked.
    Claim(Vec<String>, bool),
    /// Claims a key behind the version gate of the one entity.
    ClaimGated(String, u64),
    Start(String),
    Complete(Vec<(String, Bytes)>),
    Fail(String),
    Release(String),
    SettleWith(Vec<String>, u64),
    Park(Vec<u64>),
    Drop(Vec<u64>),
    Order(String, Order),
    Advance(u64),
    Sweep,
    Reopen,
}

/// What must be on disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    records: BTreeMap<String, Kept>,
    gates: BTreeMap<String, u64>,
    applied: Option<u64>,
    mark: Option<u64>,
    parked: BTreeSet<u64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Kept {
    kind: StateKind,
    outcome: Option<Bytes>,
    at: Timestamp,
    held: bool,
}

/// What one of several models must match.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    records: BTreeMap<String, (StateKind, Option<Bytes>, bool)>,
    applied: Option<u64>,
    mark: Option<u64>,
    parked: BTreeSet<u64>,
    now: Timestamp,
    pub(crate) token: u64,
}

/// The life as it goes on.
pub(crate) struct Life {
    disk: Disk,
    pub(crate) clock: TestClock,
    store: Option<EmbeddedStore>,
    pub(crate) model: Model,
    /// The greatest fencing token that was granted.
    pub(crate) token: u64,
}

/// Why a step went wrong.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// The store answered with an error.
    Failed(Error),
    /// The store answered what it must not.
    Broken(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

pub(crate) fn script() -> Vec<Act> {
    let mut acts = Vec::new();
    for round in 0..ROUNDS {
        let key = |name: &str| format!("{round}{name}");
        let big = Bytes::from(vec![b'x'; 700]);
        acts.extend([
            Act::Claim(vec![key("a"), key("b")], true),
            Act::Claim(vec![key("c"), key("d"), key("e")], false),
            Act::Start(key("c")),
            Act::Complete(vec![
                (key("a"), Bytes::from_static(b"done")),
                (key("c"), big),
            ]),
            Act::Fail(key("d")),
            Act::Release(key("e")),
            Act::Claim(vec![key("f"), key("g")], false),
            Act::SettleWith(vec![key("f"), key("g")], round * 10),
            Act::Park(vec![round * 3, round * 3 + 1, round * 3 + 2]),
            Act::ClaimGated(key("v"), round + 1),
            Act::Complete(vec![(key("v"), Bytes::new())]),
        ]);
        match round {
            1 => acts.extend([Act::Order(key("a"), Order::Hold(true)), Act::Reopen]),
            2 => acts.extend([
                Act::Order(key("f"), Order::Forget),
                Act::Drop(vec![0, 1, 2, 3]),
            ]),
            3 => acts.extend([Act::Order(key("d"), Order::Requeue), Act::Reopen]),
            4 => acts.extend([
                Act::Order("1a".into(), Order::Hold(false)),
                Act::Drop(vec![4, 5, 6, 7, 8, 9]),
                Act::Sweep,
            ]),
            _ => {}
        }
        acts.extend([
            Act::Advance(9),
            Act::Sweep,
            Act::Claim(vec![key("z")], true),
        ]);
    }
    acts.extend([
        Act::Advance(30),
        Act::Sweep,
        Act::Sweep,
        Act::Reopen,
        Act::Sweep,
    ]);
    acts
}

impl Life {
    pub(crate) fn begin(disk: &Disk, clock: TestClock) -> Self {
        Self {
            disk: disk.clone(),
            clock,
            store: None,
            model: Model::default(),
            token: 0,
        }
    }

    pub(crate) fn open(&mut self) -> Result<(), Wrong> {
        self.store = None;
        let options = Options::default().with_segment_bytes(1_500);
        let clock = Arc::new(self.clock.clone());
        self.store = Some(EmbeddedStore::open_in(
            Arc::new(self.disk.clone()),
            clock,
            options,
        )?);
        Ok(())
    }

    pub(crate) fn close(&mut self) {
        self.store = None;
    }

    fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("the store is open")
    }

    /// Does a step; the model has taken it in if the store answered.
    pub(crate) async fn act(&mut self, act: &Act) -> Result<(), Wrong> {
        let after = self.after(act);
        match act {
            Act::Claim(keys, marked) => {
                let requests: Vec<_> = keys.iter().map(|key| request(key, *marked)).collect();
                for admission in self.store().claim(&requests).await? {
                    self.granted(admission)?;
                }
            }
            Act::ClaimGated(key, version) => {
                let request = gated(key, *version);
                for admission in self.store().claim(&[request]).await? {
                    self.granted(admission)?;
                }
            }
            Act::Start(key) => self.settle(&[(key.clone(), start())]).await?,
            Act::Complete(pairs) => {
                let steps: Vec<_> = pairs
                    .iter()
                    .map(|(key, bytes)| (key.clone(), complete(bytes)))
                    .collect();
                self.settle(&steps).await?;
            }
            Act::Fail(key) => {
                let step = Step::Fail {
                    error: "for good".into(),
                    window: WINDOW,
                };
                self.settle(&[(key.clone(), step)]).await?;
            }
            Act::Release(key) => {
                let step = Step::Release {
                    error: "again".into(),
                    certainty: Certainty::NotApplied,
                    after: Duration::from_secs(1),
                    counted: true,
                    limits: AttemptLimits {
                        failed: NonZeroU32::MAX,
                        vanished: NonZeroU32::MAX,
                    },
                    window: WINDOW,
                };
                self.settle(&[(key.clone(), step)]).await?;
            }
            Act::SettleWith(keys, value) => self.settle_with(keys, *value).await?,
            Act::Park(numbers) => {
                let batch: Vec<_> = numbers.iter().map(|number| parked(*number)).collect();
                let _ = self.store().park(&batch).await?;
            }
            Act::Drop(numbers) => {
                let ids: Vec<_> = numbers.iter().map(|number| parked(*number).id()).collect();
                let _ = self.store().drop_parked(&ids).await?;
            }
            Act::Order(key, order) => {
                let directive = Directive {
                    operation: operation(key),
                    order: order.clone(),
                };
                for directed in self.store().operate(&[directive]).await? {
                    match directed {
                        // Refused where it is asked a second time.
                        Directed::Now(_) | Directed::Refused(_) => {}
                        Directed::Failed(error) => return Err(Wrong::Failed(error)),
                    }
                }
            }
            Act::Advance(secs) => {
                self.store().mark("idle").await?;
                self.clock.advance(Duration::from_secs(*secs));
            }
            Act::Sweep => {
                for _ in 0..50 {
                    if !self.store().sweep(100).await?.more {
                        break;
                    }
                }
            }
            Act::Reopen => self.open()?,
        }
        self.model = after;
        Ok(())
    }

    /// The model after a step.
    pub(crate) fn after(&self, act: &Act) -> Model {
        let mut model = self.model.clone();
        let at = self.clock.now();
        let mut put = |key: &str, kind, outcome: Option<Bytes>| {
            model.records.insert(
                key.to_owned(),
                Kept {
                    kind,
                    outcome,
                    at,
                    held: false,
                },
            );
        };
        match act {
            Act::Claim(keys, true) => keys
                .iter()
                .for_each(|key| put(key, StateKind::Started, None)),
            Act::Start(key) => put(key, StateKind::Started, None),
            Act::Complete(pairs) => {
                for (key, bytes) in pairs {
                    put(key, StateKind::Completed, Some(bytes.clone()));
                }
                for (key, _) in pairs {
                    if let Some(version) = key
                        .strip_suffix('v')
                        .and_then(|round| round.parse::<u64>().ok())
                    {
                        model.applied = Some(version + 1);
                    }
                }
            }
            Act::Fail(key) => put(key, StateKind::Dead, None),
            Act::Release(key) => put(key, StateKind::Released, None),
            Act::SettleWith(keys, value) => {
                for key in keys {
                    put(key, StateKind::Completed, Some(Bytes::from_static(b"t")));
                }
                model.mark = Some(*value);
            }
            Act::Park(numbers) => model.parked.extend(numbers),
            Act::Drop(numbers) => model.parked.retain(|number| !numbers.contains(number)),
            Act::Order(key, order) => match order {
                Order::Hold(held) => {
                    model
                        .records
                        .entry(key.clone())
                        .and_modify(|kept| kept.held = *held);
                }
                Order::Forget => {
                    model.records.remove(key);
                }
                Order::Requeue => {
                    model
                        .records
                        .entry(key.clone())
                        .and_modify(|kept| kept.kind = StateKind::Released);
                }
                Order::Resolve(_) => {}
            },
            Act::Claim(_, false)
            | Act::ClaimGated(..)
            | Act::Advance(_)
            | Act::Sweep
            | Act::Reopen => {}
        }
        model
    }

    fn granted(&mut self, admission: Admission) -> Result<(), Wrong> {
        match admission {
            Admission::Granted(claim) => {
                let token = claim.token.get();
                if !claim.resumed && token <= self.token {
                    return Err(Wrong::Broken(format!("token {token} after {}", self.token)));
                }
                self.token = self.token.max(token);
                Ok(())
            }
            Admission::Failed(error) => Err(Wrong::Failed(error)),
            other => Err(Wrong::Broken(format!("not granted: {other:?}"))),
        }
    }

    async fn settle(&self, steps: &[(String, Step)]) -> Result<(), Wrong> {
        let batch: Vec<_> = steps
            .iter()
            .map(|(key, step)| settlement(key, step.clone()))
            .collect();
        for settled in self.store().settle(&batch).await? {
            match settled {
                Settled::Now(_) => {}
                Settled::Failed(error) => return Err(Wrong::Failed(error)),
                Settled::Fenced { found } => {
                    return Err(Wrong::Broken(format!("fenced {steps:?}: {found:?}")));
                }
            }
        }
        Ok(())
    }

    async fn settle_with(&self, keys: &[String], value: u64) -> Result<(), Wrong> {
        let step = complete(&Bytes::from_static(b"t"));
        let batch: Vec<_> = keys
            .iter()
            .map(|key| settlement(key, step.clone()))
            .collect();
        let mark = Mark {
            name: "out".into(),
            value,
        };
        let settled = match self.store().settle_with(&batch, &mark).await? {
            Together::Applied(_) => return Ok(()),
            Together::Refused(settled) => settled,
        };
        let failed = settled.iter().find_map(|settled| match settled {
            Settled::Failed(error) => Some(error.clone()),
            Settled::Now(_) | Settled::Fenced { .. } => None,
        });
        Err(failed.map_or(
            Wrong::Broken(format!("refused together: {settled:?}")),
            Wrong::Failed,
        ))
    }

    /// What the store, opened, remembers; every key of the script is asked for.
    pub(crate) async fn find(&mut self) -> Result<Found, Wrong> {
        let keys: Vec<String> = all_keys();
        let operations: Vec<_> = keys.iter().map(|key| operation(key)).collect();
        let records = self.store().get(&operations).await?;
        let mut found = BTreeMap::new();
        for (key, record) in keys.iter().zip(records) {
            let Some(record) = record else { continue };
            let outcome = match record.outcome {
                Some(Outcome::Kept { bytes, .. }) => Some(bytes),
                Some(Outcome::TooLarge { .. }) | None => None,
            };
            found.insert(key.clone(), (record.state.kind(), outcome, record.held));
        }
        let listed = self.list().await?;
        let expected: BTreeSet<_> = found.keys().cloned().collect();
        if listed != expected {
            return Err(Wrong::Broken(format!(
                "listed {listed:?} but got {expected:?}"
            )));
        }
        let query = ListQuery {
            limit: 1_000,
            ..ListQuery::default()
        };
        let mut numbers = BTreeSet::new();
        for message in self.store().list_parked(&query).await?.items {
            let number = message
                .coordinates
                .parse()
                .map_err(|_| Wrong::Broken("coordinates".into()))?;
            if message.payload != parked(number).payload || !numbers.insert(number) {
                return Err(Wrong::Broken(format!(
                    "parked message {number} is not itself"
                )));
            }
        }
        let probe = ClaimRequest {
            claim_id: ClaimId::from_u128(u128::from(self.token) + 77),
            ..gated("probe", 1)
        };
        let mut applied = None;
        let mut token = 0;
        for admission in self.store().claim(&[probe]).await? {
            match admission {
                Admission::Stale { applied: version } => applied = Some(version),
                Admission::Granted(claim) => token = claim.token.get(),
                other => return Err(Wrong::Broken(format!("the probe: {other:?}"))),
            }
        }
        if applied.is_some() {
            let fresh = ClaimRequest {
                claim_id: ClaimId::from_u128(99),
                ..request("fresh", false)
            };
            for admission in self.store().claim(&[fresh]).await? {
                if let Admission::Granted(claim) = admission {
                    token = claim.token.get();
                }
            }
        }
        let mark = self.store().mark("out").await?;
        Ok(Found {
            records: found,
            applied,
            mark,
            parked: numbers,
            now: self.clock.now(),
            token,
        })
    }

    async fn list(&self) -> Result<BTreeSet<String>, Wrong> {
        let mut listed = BTreeSet::new();
        let mut query = ListQuery {
            limit: 3,
            ..ListQuery::default()
        };
        loop {
            let page = self.store().list(&query).await?;
            for item in page.items {
                if !listed.insert(item.operation.key.to_string()) {
                    return Err(Wrong::Broken(format!(
                        "{} is listed twice",
                        item.operation.key
                    )));
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        Ok(listed)
    }

    /// Finishes a key that nobody used, to see that the store can still be written.
    pub(crate) async fn go_on(&mut self) -> Result<(), Wrong> {
        let key = "later".to_owned();
        self.act(&Act::Claim(vec![key.clone()], true)).await?;
        self.act(&Act::Complete(vec![(key, Bytes::from_static(b"late"))]))
            .await
    }
}

impl Found {
    /// Why this is not what the model says, if it is not.
    pub(crate) fn differs_from(&self, model: &Model) -> Option<String> {
        if (self.applied, self.mark) != (model.applied, model.mark) {
            return Some(format!(
                "version {:?}, mark {:?}, expected {:?}, {:?}",
                self.applied, self.mark, model.applied, model.mark
            ));
        }
        if self.parked != model.parked {
            return Some(format!(
                "parked {:?}, expected {:?}",
                self.parked, model.parked
            ));
        }
        for key in all_keys() {
            let found = self.records.get(&key);
            let Some(kept) = model.records.get(&key) else {
                if let Some(found) = found {
                    return Some(format!("{key} is {found:?}, expected absent"));
                }
                continue;
            };
            let is_finished =
                matches!(kept.kind, StateKind::Completed | StateKind::Dead) && !kept.held;
            let may_be_absent = is_finished && WINDOW.expires_at(kept.at) <= self.now;
            let must_be_absent = is_finished && WINDOW.forgotten_at(kept.at) <= self.now;
            let is_same = found.is_some_and(|(kind, outcome, held)| {
                *kind == kept.kind && *outcome == kept.outcome && *held == kept.held
            });
            let is_right = match found {
                None => may_be_absent,
                Some(_) => is_same && !must_be_absent,
            };
            if !is_right {
                return Some(format!("{key} is {found:?}, expected {kept:?}"));
            }
        }
        None
    }
}

fn all_keys() -> Vec<String> {
    let letters = ["a", "b", "c", "d", "e", "f", "g", "v", "z"];
    let mut keys: Vec<_> = (0..ROUNDS)
        .flat_map(|round| letters.map(|letter| format!("{round}{letter}")))
        .collect();
    keys.push("later".to_owned());
    keys
}

fn operation(key: &str) -> Operation {
    let scope = Scope::new("tenant", "payments").expect("a scope");
    Operation::new(scope, Key::new(key).expect("a key"))
}

fn claim_id(key: &str) -> ClaimId {
    ClaimId::from_u128(key.bytes().fold(7, |id, byte| id * 257 + u128::from(byte)))
}

fn request(key: &str, is_marked: bool) -> ClaimRequest {
    let Operation { scope, key: named } = operation(key);
    let start = if is_marked {
        Start::Marked(Recovery::Rerun)
    } else {
        Start::Unmarked
    };
    ClaimRequest {
        start,
        window: WINDOW,
        transport: Some(Bytes::from(format!("transport-{key}"))),
        ..ClaimRequest::new(scope, named, claim_id(key))
    }
}

fn gated(key: &str, version: u64) -> ClaimRequest {
    let entity = Key::new("account").expect("a key");
    ClaimRequest {
        gate: Some(VersionGate { entity, version }),
        ..request(key, false)
    }
}

fn settlement(key: &str, step: Step) -> Settlement {
    Settlement {
        operation: operation(key),
        claim_id: claim_id(key),
        step,
    }
}

fn start() -> Step {
    Step::Start {
        recovery: Recovery::Rerun,
    }
}

fn complete(bytes: &Bytes) -> Step {
    let outcome = Outcome::Kept {
        codec: 0,
        bytes: bytes.clone(),
    };
    Step::Complete {
        outcome,
        window: WINDOW,
    }
}

fn parked(number: u64) -> Parked {
    Parked {
        scope: Scope::new("tenant", "payments").expect("a scope"),
        key: None,
        reason: "key-blank".into(),
        detail: "json:/id".into(),
        transport: None,
        coordinates: number.to_string().into(),
        headers: vec![("event-id".into(), Bytes::from_static(b"\xff\x00evt"))],
        payload: Bytes::from(format!("{number} ").repeat(100)),
        since: Timestamp::EPOCH,
    }
}

const ROUNDS: u64 = 8;
const WINDOW: Window = Window::new(Duration::from_secs(20));
