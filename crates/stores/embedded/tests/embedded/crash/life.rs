//! A scripted life of a store, step by step.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_conformance::TestClock;
use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, AttemptLimits, Certainty, Clock as _, Error, ErrorKind, FencingToken, Mark, Settled,
    Step, Store as _,
};
use semel_store_embedded::files::Files as _;
use semel_store_embedded::{EmbeddedStore, Options};

use super::disk::Disk;
use super::model::Model;
use super::planted::Planted;
use super::values::{
    ROUNDS, WINDOW, complete, gated, moved_audit, moved_records, note, operation, parked, request,
    settlement, start,
};

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
    /// Admits keys together with the length of an output that has one line for each.
    Admit(Vec<String>),
    Park(Vec<u64>),
    /// Drops messages, with a note.
    Drop(Vec<u64>),
    /// Gives an order, with a note.
    Order(String, Order),
    /// Imports records and a mark.
    MoveRecords(u64),
    /// Imports a message and an entry of the audit trail.
    MoveParked(u64, u64),
    /// Imports a token that is so much greater than any before.
    MoveToken(u64),
    Advance(u64),
    Sweep,
    Reopen,
}

/// The life as it goes on.
pub(crate) struct Life {
    disk: Disk,
    pub(crate) clock: TestClock,
    store: Option<EmbeddedStore>,
    pub(crate) model: Model,
    /// The greatest fencing token that was granted or imported.
    pub(crate) token: u64,
}

/// Reason why a step went wrong.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// The store answered with an error.
    Failed(Error),
    /// The store gave an answer that it must not.
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
            Act::Admit(vec![key("h"), key("a"), key("h")]),
            Act::Park(vec![round * 3, round * 3 + 1, round * 3 + 2]),
            Act::ClaimGated(key("v"), round + 1),
            Act::Complete(vec![(key("v"), Bytes::new())]),
        ]);
        match round {
            1 => acts.extend([
                Act::Order(key("a"), Order::Hold(true)),
                Act::Order("0z".into(), Order::Release),
                Act::Reopen,
            ]),
            2 => acts.extend([
                Act::Order(key("f"), Order::Forget),
                Act::Drop(vec![0, 1, 2, 3]),
                Act::MoveToken(70 << 40),
            ]),
            3 => acts.extend([
                Act::Order(key("d"), Order::Requeue),
                Act::MoveRecords(round),
                Act::Reopen,
            ]),
            4 => acts.extend([
                Act::Order("1a".into(), Order::Hold(false)),
                Act::Drop(vec![4, 5, 6, 7, 8, 9]),
                Act::MoveParked(round, 1_000),
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

    pub(crate) fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("the store is open")
    }

    /// Returns the model after a step.
    pub(crate) fn after(&self, act: &Act) -> Model {
        self.model.after(act, self.clock.now())
    }

    /// Does a step; the model has taken it in if the store answered.
    pub(crate) async fn act(&mut self, act: &Act) -> Result<(), Wrong> {
        let after = self.after(act);
        match act {
            Act::Claim(keys, marked) => {
                let requests: Vec<_> = keys.iter().map(|key| request(key, *marked)).collect();
                for admission in self.store().claim(requests.into()).await? {
                    self.granted(admission)?;
                }
            }
            Act::ClaimGated(key, version) => {
                let request = gated(key, *version);
                for admission in self.store().claim([request].into()).await? {
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
                    decisive: false,
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
            Act::Admit(keys) => self.admit(keys).await?,
            Act::Park(numbers) => {
                let batch: Vec<_> = numbers.iter().map(|number| parked(*number)).collect();
                let _ = self.store().park(batch.into()).await?;
            }
            Act::Drop(numbers) => {
                let ids: Vec<_> = numbers.iter().map(|number| parked(*number).id()).collect();
                let _ = self.store().drop_parked(ids.into(), Some(&note())).await?;
            }
            Act::Order(key, order) => {
                let directive = Directive {
                    operation: operation(key),
                    order: order.clone(),
                    note: Some(note()),
                };
                for directed in self.store().operate([directive].into()).await? {
                    match directed {
                        // Refused when it is asked a second time.
                        Directed::Now(_) | Directed::Refused(_) => {}
                        Directed::Failed(error) => return Err(Wrong::Failed(error)),
                    }
                }
            }
            Act::MoveRecords(round) => {
                let items = moved_records(*round, self.clock.now());
                let _ = self.store().import(items.into()).await?;
            }
            Act::MoveParked(round, number) => {
                let message = Item::Parked(Box::new(parked(*number)));
                let audited = moved_audit(*round, self.clock.now());
                let _ = self.store().import([message, audited].into()).await?;
            }
            Act::MoveToken(more) => {
                let token = self.token + more;
                let item = Item::Token(FencingToken::new(token));
                let _ = self.store().import([item].into()).await?;
                self.token = token;
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
        for settled in self.store().settle(batch.into()).await? {
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
        let settled = match self.store().settle_with(batch.into(), &mark).await? {
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

    async fn admit(&mut self, keys: &[String]) -> Result<(), Wrong> {
        let requests: Vec<_> = keys.iter().map(|key| request(key, false)).collect();
        let expected = self.model.admitted(keys);
        let mark = self.store().mark("output").await?.unwrap_or(0);
        let (write, failed) = self.write_output(mark);
        let admissions = self.store().admit_with(requests, write).await?;
        if let Some(error) = failed.lock().expect("nobody panics").take() {
            return Err(Wrong::Failed(error));
        }
        let mut granted = Vec::new();
        for admission in admissions {
            match &admission {
                Admission::Granted(claim) => {
                    granted.push(claim.operation.key.to_string());
                    self.granted(admission)?;
                }
                Admission::Replay { .. } => {}
                other => return Err(Wrong::Broken(format!("admitted: {other:?}"))),
            }
        }
        if granted == expected {
            return Ok(());
        }
        let what = format!("granted {granted:?}, expected {expected:?}");
        Err(Wrong::Broken(what))
    }

    /// Cuts the output back to its mark, appends the granted keys, and returns the new length. Also returns a slot for
    /// a failure that a bug of the store's would hide.
    fn write_output(&self, mark: u64) -> (Write, Arc<std::sync::Mutex<Option<Error>>>) {
        let disk = self.disk.clone();
        let failed = Arc::new(std::sync::Mutex::new(None));
        let hidden = Arc::clone(&failed);
        let write: Write = Box::new(move |admissions| {
            let mut lines = String::new();
            for admission in admissions {
                if let Admission::Granted(claim) = admission {
                    lines += claim.operation.key.as_str();
                    lines += "\n";
                }
            }
            let name: Arc<str> = "output".into();
            match append(&disk, mark, lines.as_bytes()) {
                Ok(value) => Ok(Mark { name, value }),
                Err(why) => {
                    let error = Error::new(ErrorKind::Unavailable, "writing the output");
                    let error = error.not_applied().with_source(why);
                    if disk.planted() == Planted::KeptThoughFailed {
                        // As if the store kept what it had admitted, and its mark as it was.
                        *hidden.lock().expect("nobody panics") = Some(error);
                        return Ok(Mark { name, value: mark });
                    }
                    Err(error)
                }
            }
        });
        (write, failed)
    }

    /// Returns the first `len` bytes of the output.
    pub(crate) fn output(&self, len: u64) -> Result<String, Wrong> {
        let mut bytes = vec![0; usize::try_from(len).expect("short")];
        if len == 0 {
            return Ok(String::new());
        }
        let file = self.disk.open(OUTPUT);
        let read = file.and_then(|file| file.read_at(&mut bytes, 0));
        match read {
            Ok(read) if read == bytes.len() => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(read) => Err(Wrong::Broken(format!("output of {read} bytes, mark {len}"))),
            Err(why) => Err(Wrong::Broken(format!("output with mark {len}: {why}"))),
        }
    }

    /// Finishes a fresh key, to see that the store can still be written.
    pub(crate) async fn go_on(&mut self) -> Result<(), Wrong> {
        let key = "later".to_owned();
        self.act(&Act::Claim(vec![key.clone()], true)).await?;
        self.act(&Act::Complete(vec![(key, Bytes::from_static(b"late"))]))
            .await
    }
}

fn append(disk: &Disk, mark: u64, lines: &[u8]) -> std::io::Result<u64> {
    let file = if disk.list()?.iter().any(|name| name == OUTPUT) {
        disk.open(OUTPUT)?
    } else {
        disk.create(OUTPUT)?
    };
    disk.sync_dir()?;
    file.truncate(mark)?;
    file.write_at(lines, mark)?;
    file.sync()?;
    Ok(mark + lines.len() as u64)
}

const OUTPUT: &str = "output.ndjson";
