//! A broker, a journal and an observer in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::port::producer::{AnyProducerJournal, ProducerJournal};
use semel_core::port::sink::{Placement, Publication, Sink};
use semel_core::producer::{
    Batch, Incarnation, InputMark, Opened, Opening, ProducerEntry, ProducerMessage, ProducerName,
    ProducerOrder, Standing, StoredBatch,
};
use semel_core::{Error, ErrorKind, Result};
use semel_outbox::Producer;
use semel_outbox::producer::{Fate, ProducerEvent, ProducerObserver, ProducerSettings, Receipt};
use semel_store_memory::MemoryProducers;
use tokio::time::sleep;

use crate::fakes::VirtualClock;

/// A broker: what it has, in order; and how it answers.
#[derive(Clone, Default)]
pub(crate) struct Broker(Arc<Mutex<Contents>>);

#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) messages: Vec<Message>,
    /// The first place of each id, and how often it is there.
    seen: BTreeMap<String, (u64, u64)>,
    pub(crate) mood: Mood,
    pub(crate) failing: BTreeSet<String>,
    pub(crate) largest_call: usize,
    pub(crate) calls: usize,
    /// The names of the headers of each message.
    pub(crate) headers: Vec<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Mood {
    #[default]
    Well,
    /// Answers no call, and takes nothing.
    Deaf,
    /// Takes everything, and answers no call.
    Dumb,
    /// Refuses every call.
    Away,
}

impl Broker {
    pub(crate) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is(&self, mood: Mood) {
        self.contents().mood = mood;
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.contents().messages.clone()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        let messages = self.messages().into_iter();
        messages.map(|it| it.text).collect()
    }

    /// The messages in the view of a reader that goes by ids.
    pub(crate) fn by_ids(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut messages = self.messages();
        messages.retain(|it| seen.insert(it.id.clone()));
        messages.into_iter().map(|it| it.text).collect()
    }
}

impl Sink for Broker {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        sleep(Duration::from_millis(1)).await;
        let mood = {
            let contents = &mut *self.contents();
            contents.calls += 1;
            contents.largest_call = contents.largest_call.max(batch.len());
            contents.mood
        };
        if mood == Mood::Deaf {
            return std::future::pending().await;
        }
        let answers = batch.iter().map(|it| {
            let text = String::from_utf8_lossy(&it.payload).into_owned();
            let contents = &mut *self.contents();
            if mood == Mood::Away || contents.failing.contains(&text) {
                return Err(Error::new(ErrorKind::Unavailable, "away"));
            }
            if text == "too large" {
                return Err(Error::new(ErrorKind::InvalidInput, "too large").not_applied());
            }
            let header = |name: &str| {
                let mut headers = it.headers.iter();
                let (_, value) = headers.find(|(its, _)| **its == *name).expect(name);
                String::from_utf8_lossy(value).into_owned()
            };
            let names = it.headers.iter().map(|(name, _)| name.to_string());
            contents.headers.push(names.collect());
            assert_eq!(header("semel-id"), *it.id);
            assert!(header("semel-producer").starts_with("billing-"));
            let place = contents.messages.len() as u64;
            let seen = contents.seen.entry(it.id.to_string());
            seen.or_insert((place, 0)).1 += 1;
            contents.messages.push(Message {
                id: it.id.to_string(),
                text,
                epoch: header("semel-epoch").parse().expect("a number"),
                sequence: header("semel-sequence").parse().expect("a number"),
            });
            Ok(())
        });
        let answers = answers.collect();
        if mood == Mood::Dumb {
            return std::future::pending().await;
        }
        answers
    }

    /// Says the number of each message among all, and whether there was one with its id before.
    async fn place(&self, batch: &[Publication]) -> Vec<Result<Placement>> {
        let answers = self.publish(batch).await.into_iter().zip(batch);
        let contents = self.contents();
        let placed = answers.map(|(answer, it)| {
            let (offset, count) = contents.seen.get(&*it.id).copied().unwrap_or_default();
            answer.map(|()| Placement {
                partition: None,
                offset: Some(offset),
                is_duplicate: count > 1,
            })
        });
        placed.collect()
    }
}

/// A journal that counts its calls, and fails some.
#[derive(Clone, Default)]
pub(crate) struct Journal(pub(crate) Arc<Counted>);

#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) journal: MemoryProducers,
    pub(crate) appends: AtomicU64,
    pub(crate) confirms: AtomicU64,
    pub(crate) lost_answers: AtomicU64,
    /// Set where it answers no append any more, and makes it.
    pub(crate) is_dumb: AtomicBool,
    pub(crate) largest_body: AtomicU64,
    /// The most bytes of a batch that it takes, if not 0.
    pub(crate) most_bytes: AtomicU64,
    /// The first sequence of a batch that is lost.
    pub(crate) hidden: AtomicU64,
    /// The sequences by which it has gone back.
    pub(crate) gone_back: AtomicU64,
}

impl ProducerJournal for Journal {
    async fn open(&self, opening: &Opening) -> Result<Opened> {
        self.0.journal.open(opening).await
    }

    async fn append(&self, by: &Incarnation, stream: &str, batch: &Batch) -> Result<Standing> {
        sleep(Duration::from_millis(1)).await;
        self.0.appends.fetch_add(1, Ordering::Relaxed);
        let largest = &self.0.largest_body;
        largest.fetch_max(batch.body.len() as u64, Ordering::Relaxed);
        let batch = &Batch {
            first: batch.first + self.0.gone_back.load(Ordering::Relaxed),
            ..batch.clone()
        };
        let most = self.0.most_bytes.load(Ordering::Relaxed);
        if most > 0 && batch.body.len() as u64 > most {
            let error = Error::new(ErrorKind::InvalidInput, "too much at once");
            return Err(error.not_applied());
        }
        let appended = self.0.journal.append(by, stream, batch).await;
        if self.0.is_dumb.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let lost = &self.0.lost_answers;
        if lost.load(Ordering::Relaxed) > 0 {
            lost.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::new(ErrorKind::Timeout, "no answer"));
        }
        appended
    }

    async fn confirm(&self, by: &Incarnation, stream: &str, through: u64) -> Result<Standing> {
        self.0.confirms.fetch_add(1, Ordering::Relaxed);
        self.0.journal.confirm(by, stream, through).await
    }

    async fn pending(
        &self,
        by: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredBatch>> {
        let hidden = self.0.hidden.load(Ordering::Relaxed);
        let mut pending = self.0.journal.pending(by, stream, after, most).await?;
        pending.retain(|it| it.first != hidden);
        Ok(pending)
    }

    async fn input(
        &self,
        by: &Incarnation,
        stream: &str,
        digest: &[u8; 32],
    ) -> Result<Option<InputMark>> {
        self.0.journal.input(by, stream, digest).await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        self.0.journal.page(after, most).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        self.0.journal.order(name, order).await
    }
}

#[derive(Clone, Default)]
pub(crate) struct Told(pub(crate) Arc<Mutex<Vec<String>>>);

impl Told {
    pub(crate) fn has(&self, words: &str) -> bool {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().any(|line| line.starts_with(words))
    }
}

impl ProducerObserver for Told {
    fn observe(&self, event: &ProducerEvent<'_>) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(format!("{event:?}"));
    }
}

pub(crate) fn opening() -> Opening {
    Opening {
        name: "billing".parse().expect("a name"),
        stream: "orders".into(),
        target: "fake".into(),
        chance: [1; 8],
    }
}

/// The things that outlive a process.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) journal: Journal,
    pub(crate) broker: Broker,
    pub(crate) told: Told,
}

impl World {
    pub(crate) async fn producer(&self) -> Producer {
        self.producer_with(ProducerSettings::default()).await
    }

    pub(crate) async fn producer_with(&self, settings: ProducerSettings) -> Producer {
        let clock = Arc::new(VirtualClock::default());
        let told = Arc::new(self.told.clone());
        let journal = AnyProducerJournal::new(self.journal.clone());
        Producer::open(
            journal,
            self.broker.clone(),
            &opening(),
            settings,
            clock,
            told,
        )
        .await
        .expect("opened")
    }

    pub(crate) async fn order(&self, order: ProducerOrder) {
        let name = opening().name;
        assert!(self.journal.order(&name, order).await.expect("ordered"));
    }

    /// The sequences that are in the journal and not confirmed, as (first, last).
    pub(crate) async fn unconfirmed(&self) -> (u64, u64) {
        let entries = self.journal.list().await.expect("a list");
        let stream = &entries[0].streams[0];
        (stream.confirmed + 1, stream.next - 1)
    }
}

pub(crate) fn messages(texts: impl IntoIterator<Item = impl ToString>) -> Vec<ProducerMessage> {
    let texts = texts.into_iter().map(|it| it.to_string());
    texts.map(ProducerMessage::new).collect()
}

pub(crate) fn keyed(text: &str, key: &'static str) -> ProducerMessage {
    ProducerMessage {
        order: Some(key.into()),
        ..ProducerMessage::new(text.to_owned())
    }
}

pub(crate) fn fates(receipts: &[Receipt]) -> Vec<Fate> {
    receipts.iter().map(|it| it.fate.clone()).collect()
}
