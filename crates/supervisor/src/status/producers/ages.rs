//! For how long the messages of producers have waited.

use std::collections::BTreeMap;
use std::time::Duration;

use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{Incarnation, ProducerEntry, ProducerName, StreamEntry};
use semel_core::{Error, ErrorKind, Result, Timestamp};
use tokio::time::{Instant, timeout_at};

use super::{is_lasting, kept};

/// The times at which the oldest messages that wait were appended.
///
/// That of a stream stays the same until something of it is confirmed, so what stands still is read once, however long it
/// waits, and only what moves is read again.
#[derive(Debug, Default)]
pub(super) struct Ages(BTreeMap<Place, Seen>);

/// A stream of a producer.
type Place = (ProducerName, Box<str>);

#[derive(Debug)]
struct Seen {
    /// The id of the producer.
    id: Box<str>,
    /// The sequence behind which the oldest is.
    confirmed: u64,
    oldest: Oldest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Oldest {
    /// Nobody has asked, or it was not answered.
    Unknown,
    /// It was confirmed since the producers were listed.
    Confirmed,
    At(Timestamp),
}

impl Ages {
    /// Asks for those that are not known, at most [`MOST`] and until then: first of the producers that `comes_first` names,
    /// then of what has stood still since the last time. Returns the first failure that concerns one producer alone.
    ///
    /// # Errors
    ///
    /// Those of the journal that last, except the loss of a record. Another one ends the looks until the next count: what is
    /// known stays known.
    pub(super) async fn ask(
        &mut self,
        journal: &impl ProducerJournal,
        entries: &[ProducerEntry],
        comes_first: impl Fn(&ProducerName) -> bool,
        until: Instant,
    ) -> Result<Option<Error>> {
        let (mut all, mut unknown) = (BTreeMap::new(), Vec::new());
        for entry in entries {
            let is_first = comes_first(&entry.name);
            for stream in waiting(entry) {
                let place = (entry.name.clone(), stream.stream.clone());
                let before = self.0.get(&place);
                let before = before
                    .filter(|it| it.id == entry.id && it.confirmed == stream.confirmed)
                    .map(|it| it.oldest);
                let oldest = match before {
                    Some(Oldest::At(at)) => Oldest::At(at),
                    _ => Oldest::Unknown,
                };
                if oldest == Oldest::Unknown {
                    unknown.push((!is_first, before.is_none(), entry, stream));
                }
                let seen = Seen {
                    id: entry.id.clone(),
                    confirmed: stream.confirmed,
                    oldest,
                };
                all.insert(place, seen);
            }
        }
        self.0 = all;
        unknown.sort_by_key(|&(comes_later, has_moved, _, _)| (comes_later, has_moved));
        let mut trouble = None;
        for (_, _, entry, stream) in unknown.into_iter().take(MOST) {
            let asked = timeout_at(until, oldest(journal, entry, stream)).await;
            let oldest = match asked {
                Ok(Ok(oldest)) => oldest,
                Ok(Err(error)) if error.kind() == ErrorKind::Corrupt => {
                    trouble.get_or_insert(error);
                    continue;
                }
                Ok(Err(error)) if is_lasting(&error) => return Err(error),
                Ok(Err(_)) | Err(_) => break,
            };
            let place = (entry.name.clone(), stream.stream.clone());
            if let Some(seen) = self.0.get_mut(&place) {
                seen.oldest = oldest;
            }
        }
        Ok(trouble)
    }

    /// Returns the time for which the oldest message of a producer has waited that is not kept; zero if none waits, and
    /// nothing if it is not known of any stream.
    pub(super) fn of(&self, entry: &ProducerEntry, now: Timestamp) -> Option<Duration> {
        let (mut first, mut is_unknown) = (None::<Timestamp>, false);
        for stream in waiting(entry) {
            let place = (entry.name.clone(), stream.stream.clone());
            match self.0.get(&place).map(|it| it.oldest) {
                Some(Oldest::At(at)) => first = Some(first.map_or(at, |first| first.min(at))),
                Some(Oldest::Confirmed) => {}
                Some(Oldest::Unknown) | None => is_unknown = true,
            }
        }
        match first {
            Some(at) => Some(now.since(at)),
            None if is_unknown => None,
            None => Some(Duration::ZERO),
        }
    }
}

/// The streams of a producer in which messages wait that are not kept.
fn waiting(entry: &ProducerEntry) -> impl Iterator<Item = &StreamEntry> {
    let streams = entry.streams.iter();
    streams.filter(|it| it.waiting() > kept(entry, it))
}

/// Returns when the oldest message of a stream was appended that is not confirmed.
async fn oldest(
    journal: &impl ProducerJournal,
    entry: &ProducerEntry,
    stream: &StreamEntry,
) -> Result<Oldest> {
    let incarnation = Incarnation {
        name: entry.name.clone(),
        id: entry.id.clone(),
        epoch: entry.epoch,
    };
    let first = journal.pending(&incarnation, &stream.stream, stream.confirmed, 1);
    match first.await {
        Ok(batches) => Ok(match batches.first() {
            Some(batch) => Oldest::At(batch.at),
            None => Oldest::Confirmed,
        }),
        // Another process has opened it since the producers were listed.
        Err(error) if error.kind() == ErrorKind::ClaimLost => Ok(Oldest::Unknown),
        Err(error) => Err(error),
    }
}

/// The streams that are asked about in one count: each answer has a batch in it.
const MOST: usize = 100;
