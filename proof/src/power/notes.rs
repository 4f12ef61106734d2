//! A store's acknowledgements, noted outside of it; work that gets acknowledgements, and the look
//! afterwards whether the records are there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use semel_core::{
    Admission, AnyStore, Claim, ClaimId, ClaimRequest, Error, FencingToken, Key, Operation,
    Outcome, Recovery, Scope, Settled, Settlement, Start, StateKind, Step, Store, Window,
};

use super::dice::Dice;

/// The requests to a store, and its answers. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    asked: BTreeMap<String, Said>,
    lives: u64,
}

/// A store's answer about one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// No answer: any state is right, as long as it is whole.
    Nothing,
    /// Granted, without a promise that the claim outlives anything but its token.
    Granted(FencingToken),
    /// Granted and started.
    Started,
    Completed,
}

/// The reason why work ended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The store answered with an error.
    Refused(Error),
    /// The store gave an answer that it must not give.
    Wrong(String),
}

/// The findings of a look at a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Acknowledged records that were looked for.
    pub(crate) asked: u64,
    /// Those that are missing.
    pub(crate) lost: Vec<String>,
    /// Records that no store may have.
    pub(crate) wrong: Vec<String>,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("nothing panics while it is locked")
    }

    fn note(&self, key: &str, said: Said) {
        self.lock().asked.insert(key.to_owned(), said);
    }

    /// A prefix for the keys of one life.
    pub(crate) fn begin_life(&self) -> u64 {
        let mut table = self.lock();
        table.lives += 1;
        table.lives
    }

    /// Claims and completes as fast as the store can, until it refuses. An answer that it must never
    /// give is the error.
    pub(crate) async fn work(self, store: AnyStore, life: u64, writer: u64) -> Result<(), String> {
        let mut dice = Dice::new(life << 32 | writer);
        for round in 0.. {
            match self
                .round(&store, &format!("{life}-{writer}-{round}"), &mut dice)
                .await
            {
                Ok(()) => {}
                Err(Stop::Refused(_)) => break,
                Err(Stop::Wrong(what)) => return Err(what),
            }
        }
        Ok(())
    }

    /// Claims a few new keys that begin with `name`, and mostly completes them.
    pub(crate) async fn round(
        &self,
        store: &AnyStore,
        name: &str,
        dice: &mut Dice,
    ) -> Result<(), Stop> {
        let keys: Vec<_> = (0..=dice.below(4))
            .map(|it| format!("{name}-{it}"))
            .collect();
        let is_marked = dice.below(2) == 0;
        let requests: Vec<_> = keys.iter().map(|key| request(key, is_marked)).collect();
        for key in &keys {
            self.note(key, Said::Nothing);
        }
        let admissions = store.claim(requests.into()).await.map_err(Stop::Refused)?;
        for (key, admission) in keys.iter().zip(admissions) {
            match admission {
                Admission::Granted(_) if is_marked => self.note(key, Said::Started),
                Admission::Granted(claim) => self.note(key, Said::Granted(claim.token)),
                Admission::Failed(error) => return Err(Stop::Refused(error)),
                other => return Err(Stop::Wrong(format!("a new key is answered {other:?}"))),
            }
        }
        if dice.below(4) == 0 {
            return Ok(());
        }
        let reports: Vec<_> = keys.iter().map(|key| report(key)).collect();
        let settled = store.settle(reports.into()).await.map_err(Stop::Refused)?;
        for (key, settled) in keys.iter().zip(settled) {
            match settled {
                Settled::Now(_) => self.note(key, Said::Completed),
                Settled::Failed(error) => return Err(Stop::Refused(error)),
                Settled::Fenced { found } => {
                    return Err(Stop::Wrong(format!("{key} is fenced, found {found:?}")));
                }
            }
        }
        Ok(())
    }

    /// Claims and completes one operation through `tell`, which answers whether it is committed.
    pub(crate) fn work_inline(
        &self,
        life: u64,
        mut tell: impl FnMut(&ClaimRequest, Outcome) -> Option<()>,
    ) {
        for round in 0.. {
            let key = format!("{life}-0-{round}-0");
            self.note(&key, Said::Nothing);
            if tell(&request(&key, false), outcome(&key)).is_none() {
                return;
            }
            self.note(&key, Said::Completed);
        }
    }

    /// Looks for everything that was ever acknowledged. A missing record is reported once.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(crate) async fn look(&self, store: &AnyStore) -> semel_core::Result<Found> {
        let asked: Vec<_> = {
            let table = self.lock();
            let asked = table.asked.iter();
            asked.map(|(key, said)| (key.clone(), *said)).collect()
        };
        let mut found = Found::default();
        for some in asked.chunks(500) {
            let operations: Vec<_> = some.iter().map(|(key, _)| operation(key)).collect();
            let records = store.get(operations.into()).await?;
            for ((key, said), record) in some.iter().zip(records) {
                let state = record.as_ref().map(|record| record.state.kind());
                let is_whole = record.is_none_or(|record| {
                    record.state.kind() != StateKind::Completed
                        || record.outcome == Some(outcome(key))
                });
                if !is_whole {
                    found.wrong.push(format!("{key} has another outcome"));
                }
                let is_there = match said {
                    Said::Nothing | Said::Granted(_) => continue,
                    Said::Started => {
                        matches!(state, Some(StateKind::Started | StateKind::Completed))
                    }
                    Said::Completed => state == Some(StateKind::Completed),
                };
                found.asked += 1;
                if !is_there {
                    found.lost.push(format!("{key} was {said:?}, is {state:?}"));
                    self.note(key, Said::Nothing);
                }
            }
        }
        found.wrong.extend(self.claim_again(store, &asked).await?);
        Ok(found)
    }

    /// Claims a few of those again whose claim may be lost: their tokens have to grow.
    async fn claim_again(
        &self,
        store: &AnyStore,
        asked: &[(String, Said)],
    ) -> semel_core::Result<Vec<String>> {
        let mut wrong = Vec::new();
        let granted = asked.iter().rev().filter_map(|(key, said)| match said {
            Said::Granted(token) => Some((key, *token)),
            Said::Nothing | Said::Started | Said::Completed => None,
        });
        for (key, before) in granted.take(3) {
            let mut request = request(key, false);
            request.claim_id = ClaimId::from_u128(2);
            for admission in store.claim([request].into()).await? {
                if let Admission::Granted(Claim { token, .. }) = admission {
                    if token <= before {
                        wrong.push(format!("{key} has token {token} after {before}"));
                    }
                    self.note(key, Said::Granted(token));
                }
            }
        }
        Ok(wrong)
    }
}

fn operation(key: &str) -> Operation {
    let scope = Scope::new("", "payments").expect("a scope");
    Operation::new(scope, Key::new(key).expect("a key"))
}

fn request(key: &str, is_marked: bool) -> ClaimRequest {
    let Operation { scope, key } = operation(key);
    let mut request = ClaimRequest::new(scope, key, ClaimId::from_u128(1));
    if is_marked {
        request.start = Start::Marked(Recovery::Rerun);
    }
    request
}

fn report(key: &str) -> Settlement {
    Settlement {
        operation: operation(key),
        claim_id: ClaimId::from_u128(1),
        step: Step::Complete {
            outcome: outcome(key),
            window: Window::DEFAULT,
        },
    }
}

/// The outcome of a key: its own bytes, over some sectors or none.
fn outcome(key: &str) -> Outcome {
    let seed = key.bytes().fold(7, |sum: u64, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let times = Dice::new(seed).by_digits(200);
    let bytes = key.repeat(usize::try_from(times).unwrap_or(1));
    Outcome::raw(Bytes::from(bytes), usize::MAX)
}
