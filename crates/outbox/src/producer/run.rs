//! The task of a producer: appends, sends and confirms, each for many messages, and all of them at the same time.

mod journal;
mod sending;

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use semel_core::port::producer::ProducerJournal;
use semel_core::port::sink::{Placement, Sink};
use semel_core::producer::{
    Batch, Incarnation, InputMark, MessageIds, Opened, ProducerMessage, Standing, StoredBatch,
};
use semel_core::{Clock, Error, Result};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::event::{ProducerEvent, ProducerObserver};
use super::group::{Group, Identity};
use super::settings::{ProducerSettings, ProducerSummary};
use super::waiters::{JournalPlace, Reply, Waiters};
use super::{gone, not_taken};
use crate::absence::Absence;

/// Messages of a caller.
pub(super) struct Request {
    pub(super) messages: Vec<ProducerMessage>,
    pub(super) bytes: usize,
    pub(super) input: Option<InputMark>,
    pub(super) reply: Reply,
    pub(super) place: Arc<JournalPlace>,
    /// The reason, where the journal refuses messages of its caller; that of what comes behind them as well.
    /// Without one, the producer ends.
    pub(super) refusal: Option<Arc<OnceLock<Error>>>,
    /// Set once the journal refused it together with others.
    pub(super) is_alone: bool,
}

/// The end that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    None,
    /// Once everything is confirmed or kept.
    Drained,
    /// Once everything is appended, and the sink has answered, or has had a little time.
    Halted,
}

type Call<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A call of the journal that is under way, and what it is about.
struct JournalCall(Call<JournalAnswer>);

enum JournalAnswer {
    Appended(Box<Appending>, Result<Standing>),
    Told(Result<Standing>),
    Loaded(Result<Vec<StoredBatch>>),
}

/// A batch that is being appended, and whom it is from.
struct Appending {
    batch: Batch,
    messages: Vec<ProducerMessage>,
    callers: Vec<Caller>,
    /// Set once the journal may have it.
    is_unsure: bool,
}

/// A caller whose messages are in a batch.
struct Caller {
    /// The sequence behind its last message.
    end: u64,
    input: Option<InputMark>,
    reply: Reply,
    place: Arc<JournalPlace>,
    refusal: Option<Arc<OnceLock<Error>>>,
}

/// A call of the sink that is under way.
struct SinkCall {
    places: Vec<usize>,
    began: Duration,
    is_told: bool,
    call: Call<Vec<Result<Placement>>>,
}

/// A producer that runs.
pub(super) struct Run<J, S> {
    journal: Arc<J>,
    sink: Arc<S>,
    stream: Box<str>,
    incarnation: Incarnation,
    identity: Identity,
    settings: ProducerSettings,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn ProducerObserver>,
    /// The sequence of the next message that is appended.
    next: u64,
    /// The sequence of the next message at the opening: those before it are another's.
    opened_at: u64,
    /// The sequence up to which the sink has everything.
    sent: u64,
    /// The state that the journal told last.
    standing: Standing,
    inbox: VecDeque<Request>,
    /// Messages that are appended and not sent, without a gap, if they fit into memory.
    ready: VecDeque<(u64, Vec<ProducerMessage>)>,
    group: Option<Group>,
    journal_call: Option<JournalCall>,
    sink_call: Option<SinkCall>,
    /// A batch whose append failed for the moment.
    unappended: Option<Box<Appending>>,
    waiters: Waiters,
    sink_away: Absence,
    sink_due: Duration,
    journal_away: Absence,
    journal_due: Duration,
    /// Set where the journal must say that there is no later opening before anything is sent.
    is_unsure: bool,
    /// The time at which it last said so.
    heard: Duration,
    /// The sequence up to which messages were counted as late.
    late_through: u64,
    /// The time at which a frozen producer asks again.
    look_due: Duration,
    summary: ProducerSummary,
}

impl<J: ProducerJournal, S: Sink> Run<J, S> {
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one value, named at the one call"
    )]
    pub(super) fn new(
        journal: J,
        sink: S,
        stream: Box<str>,
        opened: Opened,
        ids: MessageIds,
        settings: ProducerSettings,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn ProducerObserver>,
    ) -> Self {
        let incarnation = opened.incarnation;
        let heard = clock.monotonic();
        Self {
            journal: Arc::new(journal),
            sink: Arc::new(sink),
            stream,
            identity: Identity {
                ids,
                producer: incarnation.id.to_string().into(),
                epoch: incarnation.epoch.to_string().into(),
            },
            incarnation,
            settings,
            clock,
            observer,
            next: opened.next,
            opened_at: opened.next,
            sent: opened.standing.confirmed,
            standing: opened.standing,
            inbox: VecDeque::new(),
            ready: VecDeque::new(),
            group: None,
            journal_call: None,
            sink_call: None,
            unappended: None,
            waiters: Waiters::default(),
            sink_away: Absence::default(),
            sink_due: Duration::ZERO,
            journal_away: Absence::default(),
            journal_due: Duration::ZERO,
            is_unsure: false,
            heard,
            late_through: 0,
            look_due: Duration::ZERO,
            summary: ProducerSummary::default(),
        }
    }

    /// Serves until an end is asked for, all handles are gone, or there is a later opening.
    pub(super) async fn serve(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        ends: watch::Receiver<Ending>,
    ) -> Result<ProducerSummary> {
        let ended = self.turns(&mut requests, ends).await;
        requests.close();
        // The next opening sends what is in the journal: nobody may take it for lost.
        let (appended, others) = match &ended {
            Ok(()) => (gone(), not_taken()),
            Err(error) => (error.clone().maybe_applied(), error.clone().not_applied()),
        };
        self.waiters.fail(&appended);
        if let Some(tried) = self.unappended.take() {
            let error = if tried.is_unsure { &appended } else { &others };
            for caller in tried.callers {
                let _ = caller.reply.send(Err(error.clone()));
            }
        }
        self.take_rest(&mut requests);
        for request in self.inbox.drain(..) {
            let _ = request.reply.send(Err(others.clone()));
        }
        ended?;
        self.summary.kept = (self.next - 1).saturating_sub(self.sent);
        Ok(self.summary)
    }

    async fn turns(
        &mut self,
        requests: &mut mpsc::Receiver<Request>,
        mut ends: watch::Receiver<Ending>,
    ) -> Result<()> {
        let left = (self.opened_at - 1).saturating_sub(self.sent);
        if left > 0 {
            self.tell(&ProducerEvent::Repeated { count: left });
        }
        if self.standing.limit.is_some() {
            self.tell(&ProducerEvent::Frozen);
        }
        let mut patience = None;
        loop {
            let ending = *ends.borrow();
            let now = self.clock.monotonic();
            if ending == Ending::Halted {
                if patience.is_none() {
                    self.take_rest(requests);
                }
                let until = *patience.get_or_insert(now + PATIENCE);
                if now >= until {
                    return Ok(());
                }
            } else {
                self.send_more(now);
            }
            self.ask_journal(now, ending);
            let is_idle = self.sink_call.is_none() && self.journal_call.is_none();
            let is_done = match ending {
                Ending::Halted => is_idle && self.is_recorded(),
                Ending::Drained => is_idle && self.is_drained(requests),
                Ending::None => false,
            };
            if is_done {
                return Ok(());
            }
            let takes = ending != Ending::Halted && self.has_room();
            let nap = self.nap(now, patience);
            tokio::select! {
                biased;
                answer = answer_of(&mut self.journal_call) => {
                    self.journal_call = None;
                    self.told(answer)?;
                }
                answers = answers_of(&mut self.sink_call) => {
                    if let Some(call) = self.sink_call.take() {
                        self.answered(&call.places, call.began, answers);
                    }
                }
                request = requests.recv(), if takes => match request {
                    Some(request) => self.inbox.push_back(request),
                    // The last handle is gone, and nobody waits.
                    None => return Ok(()),
                },
                changed = ends.changed() => if changed.is_err() {
                    return Ok(());
                },
                () = sleep(nap) => {}
            }
        }
    }

    /// Returns the time until something is to be done that no answer brings about.
    fn nap(&mut self, now: Duration, patience: Option<Duration>) -> Duration {
        let mut until = now + LONGEST_NAP;
        for due in [self.sink_due, self.journal_due, self.look_due] {
            if due > now {
                until = until.min(due);
            }
        }
        if let Some(patience) = patience {
            until = until.min(patience);
        }
        // The journal is asked meanwhile.
        let stale_at = self.heard + HEARING;
        if self.sink_call.is_some() && stale_at > now {
            until = until.min(stale_at);
        }
        if let Some(call) = &mut self.sink_call
            && !call.is_told
        {
            let silent_at = call.began + SILENCE;
            if silent_at <= now {
                call.is_told = true;
                let since = now.saturating_sub(call.began);
                self.observer.observe(&ProducerEvent::SinkSilent { since });
            } else {
                until = until.min(silent_at);
            }
        }
        until.saturating_sub(now).max(SHORTEST_NAP)
    }

    /// Tells whether everything is confirmed, or kept, and on record as that.
    fn is_drained(&self, requests: &mpsc::Receiver<Request>) -> bool {
        let is_sent = match self.standing.limit {
            Some(limit) => self.sent >= limit.min(self.next - 1),
            None => self.sent + 1 == self.next,
        };
        let is_read = self.inbox.is_empty() && self.unappended.is_none() && requests.is_empty();
        is_read && is_sent && self.standing.confirmed >= self.sent
    }

    /// Tells whether everything that was handed over is in the journal, with what the sink confirmed.
    fn is_recorded(&self) -> bool {
        self.inbox.is_empty() && self.unappended.is_none() && self.unrecorded() == 0
    }

    /// Returns the number of messages that the sink has and the journal does not know of.
    fn unrecorded(&self) -> u64 {
        self.sent.saturating_sub(self.standing.confirmed)
    }

    /// Tells whether the journal must be asked before anything is sent.
    fn must_ask(&self, now: Duration) -> bool {
        let is_stale = now >= self.heard + HEARING;
        (self.is_unsure || is_stale) && !semel_core::planted("X21")
    }

    /// Takes no further requests but those that wait already.
    fn take_rest(&mut self, requests: &mut mpsc::Receiver<Request>) {
        requests.close();
        while let Ok(request) = requests.try_recv() {
            self.inbox.push_back(request);
        }
    }

    fn has_room(&self) -> bool {
        let bytes: usize = self.inbox.iter().map(|it| it.bytes).sum();
        self.inbox.len() < super::QUEUE && bytes < super::MOST_BYTES
    }

    fn tell(&self, event: &ProducerEvent<'_>) {
        self.observer.observe(event);
    }
}

async fn answer_of(call: &mut Option<JournalCall>) -> JournalAnswer {
    match call {
        Some(JournalCall(call)) => call.await,
        None => pending().await,
    }
}

async fn answers_of(call: &mut Option<SinkCall>) -> Vec<Result<Placement>> {
    match call {
        Some(call) => (&mut call.call).await,
        None => pending().await,
    }
}

/// The time that a stop leaves to a call of the sink that is under way.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time after which a sink that has not answered is told of.
const SILENCE: Duration = Duration::from_secs(3);
/// The time for which an answer of the journal is good: then it is asked again, also while the sink does not answer.
const HEARING: Duration = Duration::from_secs(4);
const LONGEST_NAP: Duration = Duration::from_secs(60);
const SHORTEST_NAP: Duration = Duration::from_millis(1);
