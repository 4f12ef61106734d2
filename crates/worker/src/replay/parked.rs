//! A source over parked messages: reads them from the store by pages, requeues the dead ones, retries those
//! in doubt, and drops those that came to rest in another place.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::source::{Acknowledgement, DeliveryId, Fetched, Progress, Source};
use semel_core::port::store::ListQuery;
use semel_core::{
    AnyStore, Clock, Error, ErrorKind, Key, Note, Parked, ParkedId, Result, StateKind, Store,
};
use semel_engine::summary::Fate;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::prospect::{Assessed, Assessor, Prospect, delivery};
use super::{Job, Kind, OnFate, OnTaken, Tally, distinct};

/// The results for the messages so far; complete once the run is over.
pub(super) type Shared = Arc<Mutex<Tally>>;

/// Hands over parked messages.
pub(super) struct ParkedSource {
    store: AnyStore,
    kind: Kind,
    note: Note,
    /// The key under which the messages run, in place of their own.
    key: Option<Key>,
    tally: Shared,
    on_taken: Option<OnTaken>,
    on_fate: Option<OnFate>,
    /// Pages of messages; an empty one is the end.
    pages: mpsc::Receiver<Result<Vec<Assessed>>>,
    /// The rest of the page that is being handed over.
    waiting: VecDeque<Assessed>,
    in_hand: BTreeMap<DeliveryId, Assessed>,
    next_id: u64,
    progress: Progress,
    _pager: JoinSet<()>,
}

impl ParkedSource {
    pub(super) fn open(
        store: AnyStore,
        assessor: Assessor,
        job: Job,
        clock: Arc<dyn Clock>,
    ) -> (Self, Shared) {
        let tally = Shared::default();
        // A page ahead keeps the pipeline busy.
        let (sender, pages) = mpsc::channel(1);
        let (kind, note, key) = (job.kind, job.note.clone(), job.key.clone());
        let (on_taken, on_fate) = (job.on_taken.clone(), job.on_fate.clone());
        let progress = Progress {
            read_bytes: 0,
            total_bytes: Some(job.total_bytes),
        };
        let task = Pager {
            store: store.clone(),
            assessor,
            job,
            clock,
            tally: Arc::clone(&tally),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run(sender));
        let source = Self {
            store,
            kind,
            note,
            key,
            tally: Arc::clone(&tally),
            on_taken,
            on_fate,
            pages,
            waiting: VecDeque::new(),
            in_hand: BTreeMap::new(),
            next_id: 0,
            progress,
            _pager: tasks,
        };
        (source, tally)
    }

    /// The place where a message with this fate came to rest; nothing if it stays parked.
    fn rest(&self, assessed: &Assessed, fate: Fate) -> Option<&'static str> {
        let is_parked_anew = |reason| {
            let anew = match &assessed.read {
                Ok(incoming) => incoming.parked(reason, "").id(),
                Err(rejected) => rejected.parked.id(),
            };
            anew != assessed.message.id()
        };
        let is_quarantined = self.kind == Kind::Quarantined;
        match fate {
            Fate::Applied | Fate::Replayed => Some("completed"),
            Fate::Dead => Some("a dead letter").filter(|_| &*assessed.message.reason != "dead"),
            Fate::InDoubt => Some("in doubt").filter(|_| &*assessed.message.reason != "in-doubt"),
            Fate::Stale if is_quarantined => Some("its entity has a later version"),
            Fate::Conflict if is_quarantined && is_parked_anew("fingerprint-conflict") => {
                Some("quarantined again: fingerprint-conflict")
            }
            Fate::TooOld if is_quarantined && is_parked_anew("too-old") => {
                Some("quarantined again: too-old")
            }
            Fate::Quarantined if is_quarantined && is_parked_anew("") => {
                Some("quarantined again: no usable key")
            }
            // A replay never fails open; a message without a record is not at rest.
            Fate::Unprotected
            | Fate::Stale
            | Fate::Conflict
            | Fate::TooOld
            | Fate::Quarantined
            | Fate::Released => None,
        }
    }

    /// The mark of a message that came to rest as an operation of its own, in this run: a duplicate of one was marked
    /// before, or is none.
    fn mark(&self, assessed: &Assessed, fate: Fate) -> Option<Parked> {
        let is_operation = match fate {
            Fate::Applied | Fate::Dead | Fate::InDoubt => true,
            Fate::Replayed
            | Fate::Unprotected
            | Fate::Stale
            | Fate::Conflict
            | Fate::TooOld
            | Fate::Quarantined
            | Fate::Released => false,
        };
        let key = self.key.as_ref().filter(|_| is_operation)?;
        distinct::mark(&assessed.message).filter(|mark| mark.key.as_ref() != Some(key))
    }

    fn count(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn noted(&self, rest: &str) -> Note {
        let ran = match &self.key {
            Some(key) => format!("ran under the key {}: {rest}", key.as_str()),
            None => format!("ran again: {rest}"),
        };
        let reason = match &*self.note.reason {
            "" => ran,
            reason => format!("{reason}; {ran}"),
        };
        Note {
            by: self.note.by.clone(),
            reason: reason.into(),
        }
    }
}

impl Source for ParkedSource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        while self.waiting.is_empty() {
            let page = self.pages.recv().await.ok_or_else(gone)??;
            if page.is_empty() {
                return Ok(Fetched::Ended);
            }
            self.waiting.extend(page);
        }
        let count = max.min(self.waiting.len());
        let mut deliveries = Vec::with_capacity(count);
        for assessed in self.waiting.drain(..count) {
            let id = DeliveryId(self.next_id);
            self.next_id += 1;
            self.progress.read_bytes += assessed.message.payload.len() as u64;
            let how = (self.kind, self.key.as_ref());
            if let Some(on_taken) = &self.on_taken {
                on_taken(assessed.message.id());
            }
            deliveries.push(delivery(id, &assessed.message, how));
            self.in_hand.insert(id, assessed);
        }
        Ok(Fetched::Deliveries(deliveries))
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        let mut resting: BTreeMap<&'static str, Vec<ParkedId>> = BTreeMap::new();
        let mut marks = Vec::new();
        for told in batch {
            let Some(assessed) = self.in_hand.remove(&told.delivery) else {
                continue;
            };
            // That is settled, whatever becomes of the message itself.
            if let Some(on_fate) = &self.on_fate {
                on_fate(assessed.message.id(), told.fate);
            }
            match self.rest(&assessed, told.fate) {
                Some(rest) => {
                    marks.extend(self.mark(&assessed, told.fate));
                    resting.entry(rest).or_default().push(assessed.message.id());
                }
                None => self.count(|tally| tally.kept += 1),
            }
        }
        let mut failed = Ok(());
        if !marks.is_empty() {
            failed = self.store.park(marks.into()).await.map(drop);
        }
        for (rest, ids) in resting {
            // If this fails, the message is still there, and the next run finds it settled.
            let (count, note) = (ids.len() as u64, self.noted(rest));
            if failed.is_ok() {
                let dropped = self.store.drop_parked(ids.into(), Some(&note)).await;
                failed = dropped.map(drop);
            }
            match &failed {
                Ok(()) => self.count(|tally| tally.dropped += count),
                Err(_) => self.count(|tally| tally.kept += count),
            }
        }
        failed
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        for id in batch {
            if self.in_hand.remove(id).is_some() {
                self.count(|tally| tally.kept += 1);
            }
        }
        Ok(())
    }

    async fn extend(&mut self, _: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        Some(self.progress)
    }
}

/// Goes through the parked messages of a pipeline, on a task of its own.
struct Pager {
    store: AnyStore,
    assessor: Assessor,
    job: Job,
    clock: Arc<dyn Clock>,
    tally: Shared,
}

impl Pager {
    async fn run(mut self, pages: mpsc::Sender<Result<Vec<Assessed>>>) {
        let mut query = ListQuery {
            reasons: self.job.kind.reasons(),
            limit: self.assessor.batch().min(MOST_AT_ONCE),
            ..self.assessor.selection()
        };
        loop {
            // A page is ordered once there is room for it. The fetching task may have stopped.
            let Ok(room) = pages.reserve().await else {
                return;
            };
            let page = self.page(&mut query).await;
            let is_last = page.is_err() || query.after.is_none() || self.job.count == Some(0);
            match page {
                Ok(page) if page.is_empty() && !is_last => {}
                Ok(page) if !page.is_empty() && is_last => {
                    room.send(Ok(page));
                    let _ = pages.send(Ok(Vec::new())).await;
                    return;
                }
                page => {
                    room.send(page);
                    if is_last {
                        return;
                    }
                }
            }
        }
    }

    /// The next page, ready to run.
    async fn page(&mut self, query: &mut ListQuery) -> Result<Vec<Assessed>> {
        let page = self.store.list_parked(query).await?;
        query.after = page.next;
        let (until, wanted) = (self.job.until, Arc::clone(&self.job.wanted));
        let messages = page.items.into_iter();
        let messages = messages.filter(|message| message.since <= until && wanted(message));
        let messages: Vec<_> = messages.collect();
        if let Some(left) = &mut self.job.count {
            *left = left.saturating_sub(messages.len());
        }
        let (store, now) = (&self.store, self.clock.now());
        let look_up = |operations: Vec<_>, _| async move { store.get(operations.into()).await };
        let mut assessed = self.assessor.assess(look_up, messages, now).await?;
        let all = assessed.len();
        let stands = self.job.stands.as_ref();
        assessed.retain(|it| match it.prospect {
            Prospect::Refused(_) | Prospect::Published => false,
            // No effect is called.
            Prospect::Done => true,
            Prospect::Runs { .. }
            | Prospect::Waits { .. }
            | Prospect::Stays(_)
            | Prospect::GivenUp(_) => {
                stands.is_none_or(|stands| stands(&it.message, it.record.as_ref()))
            }
        });
        let refused = (all - assessed.len()) as u64;
        self.tally
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .refused += refused;
        match self.job.kind {
            Kind::DeadLetters => {
                self.order(&assessed, StateKind::Dead, &Order::Requeue)
                    .await?;
            }
            Kind::InDoubt => {
                self.order(&assessed, StateKind::InDoubt, &Order::Retry)
                    .await?;
            }
            Kind::Quarantined => {}
        }
        Ok(assessed)
    }

    /// Lets operations in this state be attempted again. A crash after this leaves them released, with their
    /// messages still parked: as dead letters, when they are run again.
    async fn order(&self, page: &[Assessed], state: StateKind, order: &Order) -> Result<()> {
        let dead = page.iter().filter(|it| it.state == Some(state));
        let directives: Arc<[_]> = dead
            .filter_map(|it| it.read.as_ref().ok())
            .map(|incoming| Directive {
                operation: incoming.request.operation.clone(),
                order: order.clone(),
                note: Some(self.job.note.clone()),
            })
            .collect();
        if directives.is_empty() {
            return Ok(());
        }
        for directed in self.store.operate(directives).await? {
            match directed {
                // Refused: another caller was faster; the claim finds out the state.
                Directed::Now(_) | Directed::Refused(_) => {}
                Directed::Failed(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The error of a pager that is gone, which has panicked: a pager reports its end.
fn gone() -> Error {
    Error::new(ErrorKind::Internal, "the list of parked messages broke off")
}

/// The number of messages of a page, which a crash may leave requeued and not yet run.
const MOST_AT_ONCE: usize = 256;
