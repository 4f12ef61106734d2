//! Dead letters on their way to a broker: published and confirmed before their delivery is acknowledged.
//!
//! The store has the record and the message already, so the published message is a copy, at least once,
//! with an id of its operation. While the broker is away, the copies wait and their deliveries with them;
//! as those are in hand, they limit how much else is taken in. Not for messages that are in quarantine or
//! in doubt.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::sink::{AnySink, Publication, Sink};
use semel_core::{ByteString, Error, ErrorKind, Operation, Result, Store};
use tokio::task::{JoinError, JoinSet};

use super::{Met, Outcomes, ToPark};
use crate::consumer::outstanding::Outstanding;
use crate::consumer::patience::Purpose;
use crate::consumer::store_calls::{Asked, StoreCalls};
use crate::event::{Event, Wait};
use crate::publication;
use crate::retry::{self, Pauses};
use crate::summary::Fate;

/// Dead letters that are not confirmed yet.
pub(super) struct Letters {
    sink: Option<AnySink>,
    /// In the order in which they died.
    waiting: VecDeque<Letter>,
    under_way: Vec<Letter>,
    /// At most one task: it publishes the letters under way.
    task: JoinSet<Answers>,
    heard: Option<Result<Answers, JoinError>>,
    /// The time at which the broker is tried again.
    retry_at: Duration,
    /// The pauses for which the broker is left alone when it fails.
    pauses: Pauses,
    /// The time of the last event that said the broker is away.
    told_at: Option<Duration>,
    /// The time of the first failed try, while tries fail.
    away_since: Option<Duration>,
}

type Answers = Vec<Result<()>>;

/// A dead letter, and the fate that counts once it is confirmed.
struct Letter {
    publication: Publication,
    coordinates: ByteString,
    met: Option<Met>,
    /// The letter goes out without its original headers, which the broker did not take.
    is_bare: bool,
}

impl Letters {
    pub(super) fn new(sink: Option<AnySink>) -> Self {
        Self {
            sink,
            waiting: VecDeque::new(),
            under_way: Vec::new(),
            task: JoinSet::new(),
            heard: None,
            retry_at: Duration::ZERO,
            pauses: Pauses::new(retry::BROKER),
            told_at: None,
            away_since: None,
        }
    }

    /// Returns the time at which more is published, if letters wait for nothing but their time.
    fn next_due(&self) -> Option<Duration> {
        let is_idle = self.under_way.is_empty() && !self.waiting.is_empty();
        is_idle.then_some(self.retry_at)
    }

    /// Tells whether answers are on their way.
    fn are_under_way(&self) -> bool {
        !self.task.is_empty()
    }

    /// Waits for the answers to the letters under way. Cancel safe.
    async fn answers(&mut self) {
        if let Some(joined) = self.task.join_next().await {
            self.heard = Some(joined);
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }
}

impl Outcomes {
    /// Returns the time at which more dead letters are published, if they wait for nothing but their time.
    pub(in crate::consumer) fn letters_due(&self) -> Option<Duration> {
        self.letters.next_due()
    }

    /// Tells whether answers about dead letters are on their way.
    pub(in crate::consumer) fn awaits_letters(&self) -> bool {
        self.letters.are_under_way()
    }

    /// Waits for the answers about dead letters that are on their way. Cancel safe.
    pub(in crate::consumer) async fn letters_are_answered(&mut self) {
        self.letters.answers().await;
    }

    /// Deals with parked messages that the store keeps now. Dead letters go to their broker first, if they
    /// have one.
    pub(super) async fn kept<S: Store + Clone>(
        &mut self,
        store: &StoreCalls<S>,
        outstanding: &Outstanding,
        kept: ToPark,
    ) -> Result<()> {
        if self.letters.sink.is_none() {
            self.settled.extend(kept.met);
            return Ok(());
        }
        let mut dead = Vec::new();
        for (parked, met) in kept.messages.iter().zip(kept.met) {
            match &parked.key {
                Some(key) if met.fate == Fate::Dead => {
                    dead.push((
                        Operation::new(parked.scope.clone(), key.clone()),
                        parked,
                        met,
                    ));
                }
                Some(_) | None => self.settled.push(met),
            }
        }
        if dead.is_empty() {
            return Ok(());
        }
        let operations: Arc<[_]> = dead
            .iter()
            .map(|(operation, ..)| operation.clone())
            .collect();
        let mut records = match store.try_get(outstanding, &operations).await? {
            Asked::Answered(records) => records,
            Asked::NotNow { .. } => Vec::new(),
        };
        records.resize(operations.len(), None);
        for ((operation, parked, met), record) in dead.into_iter().zip(records) {
            let publication = publication::of_dead(&operation, parked, record.as_ref());
            let why = Wait::DeadLetter;
            self.context.observe(&Event::Waits { why });
            let mut met = Some(met);
            if semel_core::planted("K02") {
                self.settled.extend(met.take());
            }
            self.letters.waiting.push_back(Letter {
                publication,
                coordinates: parked.coordinates.clone(),
                met,
                is_bare: false,
            });
        }
        Ok(())
    }

    /// Deals with the answers that are here, and publishes waiting letters if their time has come.
    pub(in crate::consumer) fn post(&mut self) {
        if let Some(joined) = self.letters.task.try_join_next() {
            self.letters.heard = Some(joined);
        }
        if let Some(joined) = self.letters.heard.take() {
            self.heard(joined);
        }
        let now = self.context.now();
        if self.letters.next_due().is_none_or(|due| due > now) {
            return;
        }
        let Some(sink) = self.letters.sink.clone() else {
            return;
        };
        let most = self.context.pipeline.batch.min(self.letters.waiting.len());
        self.letters.under_way = self.letters.waiting.drain(..most).collect();
        let letters = self.letters.under_way.iter();
        let batch: Vec<_> = letters.map(|letter| letter.publication.clone()).collect();
        self.letters
            .task
            .spawn(async move { sink.publish(&batch).await });
    }

    fn heard(&mut self, joined: Result<Answers, JoinError>) {
        let letters = std::mem::take(&mut self.letters.under_way);
        let gone = || {
            Error::new(
                ErrorKind::Internal,
                "publishing a dead letter gave no answer",
            )
        };
        let mut answers = joined.unwrap_or_default();
        answers.resize(letters.len(), Err(gone()));
        let mut again = VecDeque::new();
        let mut failure = None;
        for (mut letter, answer) in letters.into_iter().zip(answers) {
            match answer {
                Ok(()) => self.settled.extend(letter.met),
                Err(error) if error.kind() != ErrorKind::InvalidInput => {
                    failure = Some(error);
                    again.push_back(letter);
                }
                Err(_) if !letter.is_bare => {
                    letter.publication = publication::bare(&letter.publication);
                    letter.is_bare = true;
                    again.push_back(letter);
                }
                Err(error) => {
                    let coordinates = &letter.coordinates;
                    self.context.observe(&Event::DeadLetterRefused {
                        coordinates,
                        error: &error,
                    });
                    self.settled.extend(letter.met);
                }
            }
        }
        again.append(&mut self.letters.waiting);
        self.letters.waiting = again;
        if let Some(error) = failure {
            self.letters_failed(&error);
        } else {
            self.letters.pauses = Pauses::new(retry::BROKER);
            self.letters.told_at = None;
            if let Some(since) = self.letters.away_since.take() {
                let lasted = self.context.now().saturating_sub(since);
                self.context.observe(&Event::TargetBack { lasted });
            }
        }
    }

    /// Leaves the broker alone for a while, and emits an event, but not every time.
    fn letters_failed(&mut self, error: &Error) {
        let now = self.context.now();
        let wait = self.letters.pauses.longer();
        let wait = self.context.surroundings.jittered(wait);
        self.letters.retry_at = now.saturating_add(wait);
        self.letters.away_since.get_or_insert(now);
        let told_at = self.letters.told_at;
        if told_at.is_none_or(|told_at| now.saturating_sub(told_at) >= TOLD_EVERY) {
            self.letters.told_at = Some(now);
            self.context.observe(&Event::TargetAway { error, wait });
        }
    }

    /// Waits at the end of a run for confirmations: until one letter fails, or for as long as reports have at a
    /// shutdown, and running effects would have. Returns the count of the letters that are not confirmed.
    pub(in crate::consumer) async fn last_letters(&mut self) -> usize {
        let (now, patience) = (self.context.now(), self.context.shutdown.patience);
        let end = self.context.waits_until(Purpose::Report);
        let end = end.unwrap_or_else(|| now.saturating_add(patience));
        loop {
            self.post();
            let left = end.saturating_sub(self.context.now());
            if self.letters.is_empty() || !self.letters.are_under_way() || left.is_zero() {
                break;
            }
            tokio::select! {
                biased;
                () = self.letters.answers() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
        let letters = self.letters.waiting.iter().chain(&self.letters.under_way);
        let unconfirmed = letters.filter(|letter| letter.met.is_some()).count();
        self.letters.waiting.clear();
        self.letters.under_way.clear();
        unconfirmed
    }
}

/// The time between two events that say the broker is away.
const TOLD_EVERY: Duration = Duration::from_secs(10);
