//! The outbox of a process: calls that are slow, fail before they are carried out, or whose answer is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::outbox::{Holder, OutboxId, Outgoing, PartitionLease, Share};
use semel_core::port::outbox::{OutboxStore, RelayName, Unsent};
use semel_core::{Error, ErrorKind, Result};
use tokio::time::sleep;

use super::scene::{CALL, DEAD, Scene, State, partition};
use crate::seeded::course::secs;

pub(super) struct SimulatedOutbox {
    scene: Arc<Scene>,
    process: u64,
    life: u64,
    calls: AtomicU64,
}

impl SimulatedOutbox {
    pub(super) fn new(scene: &Arc<Scene>, process: u64, life: u64) -> Self {
        Self {
            scene: Arc::clone(scene),
            process,
            life,
            calls: AtomicU64::new(0),
        }
    }

    /// Carries out a call, as the seed wants it.
    async fn call<T: Send>(
        &self,
        work: impl FnOnce(&mut State, Duration) -> T + Send,
    ) -> Result<T> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut dice = self
            .scene
            .course
            .dice(&[CALL, self.process, self.life, call]);
        let usual = dice.between(Duration::ZERO, Duration::from_millis(40));
        let is_fault = self.scene.course.is_faulty() && dice.one_in(10);
        let fault = if is_fault {
            dice.weighted(FAULTS)
        } else {
            None
        };
        let long = dice.between(Duration::ZERO, secs(15));
        let away = || Err(Error::new(ErrorKind::Unavailable, "the outbox is away"));
        sleep(usual).await;
        if let Some(fault) = fault {
            self.scene.course.blow(fault);
        }
        if fault == Some(REFUSED) {
            return away();
        }
        if fault == Some(LATE) {
            sleep(long).await;
        }
        let now = self.scene.course.now();
        let done = work(&mut self.scene.state(), now);
        match fault {
            Some(LOST) => away(),
            Some(LATE_ANSWER) => {
                sleep(long).await;
                Ok(done)
            }
            _ => Ok(done),
        }
    }
}

impl OutboxStore for SimulatedOutbox {
    async fn lease(
        &self,
        relay: &RelayName,
        lease: Duration,
        balanced: bool,
    ) -> Result<Vec<PartitionLease>> {
        let name = relay.process.clone();
        let course = Arc::clone(&self.scene.course);
        self.call(move |state, now| {
            state.processes.retain(|_, until| *until > now);
            state.processes.insert(name.clone(), now + lease);
            if balanced {
                course.takeovers(divide(state, &name, now));
            }
            for held in &mut state.leases {
                if held.holder.as_ref() == Some(&name) && held.until > now {
                    held.until = now + lease;
                }
            }
            let held = (0..).zip(&state.leases);
            let held = held.filter(|(_, it)| it.holder.as_ref() == Some(&name) && it.until > now);
            held.map(|(partition, it)| PartitionLease {
                partition,
                token: it.token,
            })
            .collect()
        })
        .await
    }

    async fn pending(
        &self,
        relay: &RelayName,
        leases: &[PartitionLease],
        most: u32,
    ) -> Result<Vec<Outgoing>> {
        let (name, leases) = (relay.process.clone(), leases.to_vec());
        self.call(move |state, now| {
            let mut held_up: BTreeMap<u64, i64> = BTreeMap::new();
            for row in state.rows.values() {
                if (row.is_dead || row.due.is_some_and(|due| due > now))
                    && let Some(key) = row.key
                {
                    let first = held_up.entry(key).or_insert(row.place);
                    *first = row.place.min(*first);
                }
            }
            let mut found: Vec<_> = state
                .rows
                .iter()
                .filter(|(id, row)| {
                    let partition = partition(**id, row.key);
                    let mut leases = leases.iter();
                    let lease = leases.find(|it| it.partition == partition);
                    let first = row.key.and_then(|key| held_up.get(&key));
                    lease.is_some_and(|lease| is_held(state, &name, *lease, now))
                        && !row.is_dead
                        && row.due.is_none_or(|due| due <= now)
                        && first.is_none_or(|first| *first >= row.place)
                })
                .collect();
            found.sort_by_key(|(_, row)| row.place);
            found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
            let outgoing = |(id, row): (&u128, &super::scene::Row)| Outgoing {
                id: OutboxId::from_u128(*id),
                partition: partition(*id, row.key),
                place: row.place,
                order_key: row.key.map(|key| key.to_string().into()),
                headers: Ok(Vec::new()),
                payload: id.to_string().into(),
                attempts: row.attempts,
            };
            found.into_iter().map(outgoing).collect()
        })
        .await
    }

    async fn sent(&self, ids: &[OutboxId], _: bool) -> Result<u64> {
        let ids: Vec<u128> = ids.iter().map(|id| id.as_u128()).collect();
        self.call(move |state, _| {
            let before = state.rows.len();
            state.rows.retain(|id, _| !ids.contains(id));
            (before - state.rows.len()) as u64
        })
        .await
    }

    async fn put_off(&self, relay: &RelayName, unsent: &[Unsent]) -> Result<Vec<OutboxId>> {
        let (name, unsent) = (relay.process.clone(), unsent.to_vec());
        let given_up = self.call(move |state, now| {
            let (mut changed, mut dead) = (Vec::new(), 0);
            for it in unsent {
                if !is_held(state, &name, it.lease, now) {
                    continue;
                }
                let Some(row) = state.rows.get_mut(&it.id.as_u128()) else {
                    continue;
                };
                row.attempts += u32::from(it.counted);
                row.due = it.wait.map(|wait| now + wait);
                row.is_dead = it.wait.is_none();
                dead += u64::from(row.is_dead);
                changed.push(it.id);
            }
            (changed, dead)
        });
        let (changed, dead) = given_up.await?;
        if dead > 0 {
            self.scene.course.saw(DEAD);
        }
        Ok(changed)
    }

    async fn forget(&self, _: &str, _: Duration, _: u32) -> Result<u64> {
        Ok(0)
    }

    async fn leave(&self, relay: &RelayName) -> Result<()> {
        let name = relay.process.clone();
        self.call(move |state, _| {
            state.processes.remove(&name);
            for lease in &mut state.leases {
                if lease.holder.as_ref() == Some(&name) {
                    lease.holder = None;
                }
            }
        })
        .await
    }

    async fn committed(&self) -> Result<()> {
        self.scene.commits.notified().await;
        Ok(())
    }
}

fn is_held(state: &State, process: &str, lease: PartitionLease, now: Duration) -> bool {
    let held = state.leases.get(usize::from(lease.partition));
    held.is_some_and(|it| {
        it.holder.as_deref() == Some(process) && it.token == lease.token && it.until > now
    })
}

/// Divides the partitions as every database does. Returns the number of those that are taken over.
fn divide(state: &mut State, process: &str, now: Duration) -> u64 {
    let mut takeovers = 0;
    let holder = |lease: &super::scene::Lease| match &lease.holder {
        Some(holder) if **holder == *process => Holder::Own,
        Some(_) if lease.until > now => Holder::Other,
        Some(_) | None => Holder::Nobody,
    };
    let holders: Vec<Holder> = state.leases.iter().map(holder).collect();
    let until = state.processes.get(process).copied().unwrap_or(now);
    let share = Share::of(&holders, state.processes.len());
    for partition in share.give {
        if let Some(lease) = state.leases.get_mut(usize::from(partition)) {
            lease.holder = None;
        }
    }
    for partition in share.keep.into_iter().chain(share.take) {
        let Some(lease) = state.leases.get_mut(usize::from(partition)) else {
            continue;
        };
        let is_own = lease.holder.as_deref() == Some(process);
        if !is_own || lease.until <= now {
            takeovers += u64::from(lease.holder.is_some() && !is_own);
            lease.token += 1;
        }
        lease.holder = Some(process.into());
        lease.until = until;
    }
    takeovers
}

const REFUSED: &str = "call of the outbox refused";
const LATE: &str = "call of the outbox late";
const LOST: &str = "answer of the outbox lost";
const LATE_ANSWER: &str = "answer of the outbox late";
const FAULTS: &[(u64, &str)] = &[(1, REFUSED), (1, LATE), (1, LOST), (1, LATE_ANSWER)];
