//! The producer: publishes under an identity that outlives the process. Not for where its journal is kept.
//!
//! A message is in the journal, with its sequence, before the sink has it. What an earlier process did not see confirmed
//! is sent first, under the same ids and sequences. Many messages go through each step together: one append, one call
//! of the sink, one confirmation, which goes along with the next append.

mod event;
mod feed;
mod file_state;
mod group;
mod rows;
mod run;
mod settings;
mod waiters;

use std::sync::{Arc, OnceLock};

use semel_core::port::producer::ProducerJournal;
use semel_core::port::sink::Sink;
use semel_core::producer::{Incarnation, InputMark, MessageIds, Opening, ProducerMessage};
use semel_core::{Clock, Error, ErrorKind, Result};
use tokio::sync::{OnceCell, mpsc, oneshot, watch};
use tokio::task::JoinSet;

pub use event::{ProducerEvent, ProducerObserver};
pub use feed::{Feed, TakenRows, UnsureRows, close_or_stop};
pub use rows::{CheckedInput, RowInput, RowSelectors, Rows};
pub use settings::{
    MOST_AT_ONCE, MOST_BYTES_AT_ONCE, MOST_UNCONFIRMED, ProducerSettings, ProducerSummary,
};
pub use waiters::{Fate, Receipt};

use run::{Ending, Request, Run};
use waiters::JournalPlace;

/// A producer that was opened for one stream. Its clones are handles of the same.
///
/// Once all handles are dropped, it ends as by a kill: what the journal has is left to the next opening, and what was
/// handed over and is not there yet is not sent. [`Producer::close`] waits for all of it, and [`Producer::stop`] for the
/// journal.
#[derive(Clone, Debug)]
pub struct Producer {
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    incarnation: Incarnation,
    ids: MessageIds,
    ending: watch::Sender<Ending>,
    /// The task that appends and sends; it ends with the last handle.
    task: tokio::sync::Mutex<JoinSet<Result<ProducerSummary>>>,
    /// Its end, for all who ask.
    ended: OnceCell<Result<ProducerSummary>>,
}

impl Producer {
    /// Opens a producer, and begins to send what earlier incarnations have left. Needs a tokio runtime.
    ///
    /// # Guarantee   the epoch is higher than any before; earlier incarnations append and confirm nothing any more
    /// # Errors
    ///
    /// Those of [`ProducerJournal::open`]
    ///
    /// # Cancel safety   safe: an opening that nobody knows of fences earlier ones all the same
    pub async fn open<J: ProducerJournal, S: Sink>(
        journal: J,
        sink: S,
        opening: &Opening,
        settings: ProducerSettings,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn ProducerObserver>,
    ) -> Result<Self> {
        let opened = journal.open(opening).await?;
        let ids = MessageIds::of(&opened.incarnation.id, &opening.stream);
        let (requests, received) = mpsc::channel(QUEUE);
        let (ending, ends) = watch::channel(Ending::None);
        let incarnation = opened.incarnation.clone();
        let run = Run::new(
            journal,
            sink,
            opening.stream.clone(),
            opened,
            ids,
            settings,
            clock,
            observer,
        );
        let mut task = JoinSet::new();
        task.spawn(run.serve(received, ends));
        Ok(Self {
            requests,
            shared: Arc::new(Shared {
                incarnation,
                ids,
                ending,
                task: tokio::sync::Mutex::new(task),
                ended: OnceCell::new(),
            }),
        })
    }

    /// Returns the incarnation.
    pub fn incarnation(&self) -> &Incarnation {
        &self.shared.incarnation
    }

    /// Returns the id that the message of a sequence has, unless it came with one of its own.
    pub fn id_of(&self, sequence: u64) -> String {
        self.shared.ids.id(sequence)
    }

    /// Publishes messages in their order, and returns what became of each.
    ///
    /// # Guarantee   in the journal before any of them is sent; sent until the sink has confirmed it
    /// # Errors   `InvalidInput`: a message of more than [`MOST_BYTES_AT_ONCE`], or more than the store takes at once;
    /// `ClaimLost` (`producer-fenced`): there is a later opening, which sends what is in the journal; those of a journal
    /// that no repetition mends. Not applied: none of the messages is in the journal. Else they may be there, and are sent under their ids by the next opening:
    /// whoever hands them over once more makes new messages of them
    ///
    /// # Cancel safety   safe: what was handed over is published all the same while there is a handle, and by the next
    /// opening once the journal has it
    pub async fn publish(&self, messages: Vec<ProducerMessage>) -> Result<Vec<Receipt>> {
        if messages.iter().any(|it| size(it) > MOST_BYTES_AT_ONCE) {
            return Err(too_many_bytes());
        }
        let (mut submitted, mut failure) = (Vec::new(), None);
        let refusal = Arc::new(OnceLock::new());
        for piece in pieces(messages) {
            let refusal = Some(Arc::clone(&refusal));
            match self.hand_over(piece, None, refusal).await {
                Ok(submission) => submitted.push(submission),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let mut receipts = Vec::new();
        for mut submission in submitted {
            match submission.confirmed().await {
                Ok(some) => receipts.extend(some),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        match failure {
            None => Ok(receipts),
            Some(error) if receipts.is_empty() => Err(error),
            Some(error) => Err(error.maybe_applied()),
        }
    }

    /// Hands messages over, [`MOST_AT_ONCE`] and [`MOST_BYTES_AT_ONCE`] at most, with the progress in the input that they
    /// come from. Waits for room, and neither for the journal nor for the sink. What is submitted is in turn: where the
    /// store takes some of it in no case, the producer ends, so that nothing overtakes it.
    ///
    /// # Errors   `InvalidInput`: more than that; those of [`Producer::publish`]
    ///
    /// # Cancel safety   as [`Producer::publish`]
    pub async fn submit(
        &self,
        messages: Vec<ProducerMessage>,
        input: Option<InputMark>,
    ) -> Result<Submission> {
        if messages.len() > MOST_AT_ONCE as usize {
            let message = format!("at most {MOST_AT_ONCE} messages are handed over at once");
            return Err(Error::new(ErrorKind::InvalidInput, message).not_applied());
        }
        if messages.iter().map(size).sum::<usize>() > MOST_BYTES_AT_ONCE {
            return Err(too_many_bytes());
        }
        self.hand_over(messages, input, None).await
    }

    async fn hand_over(
        &self,
        messages: Vec<ProducerMessage>,
        input: Option<InputMark>,
        refusal: Option<Arc<OnceLock<Error>>>,
    ) -> Result<Submission> {
        let bytes = messages.iter().map(size).sum();
        let (reply, answer) = oneshot::channel();
        let place = Arc::<JournalPlace>::default();
        let request = Request {
            messages,
            bytes,
            input,
            reply,
            place: Arc::clone(&place),
            refusal,
            is_alone: false,
        };
        match self.requests.send(request).await {
            Ok(()) => Ok(Submission { answer, place }),
            Err(_) => Err(self.shared.failure().await),
        }
    }

    /// Waits until everything is confirmed, or kept while the producer is frozen, and ends it. What other handles submit
    /// from now on is refused.
    ///
    /// # Errors
    ///
    /// Those of [`Producer::publish`]
    ///
    /// # Cancel safety   as a kill
    pub async fn close(self) -> Result<ProducerSummary> {
        self.end(Ending::Drained).await
    }

    /// Appends what was handed over, sends nothing new, waits a little for the sink, records what it confirmed, and ends
    /// the producer. The rest is left to the next opening. Where the journal is away, callers are told that their messages
    /// were not taken.
    ///
    /// # Errors
    ///
    /// As [`Producer::close`]
    ///
    /// # Cancel safety   as a kill
    pub async fn stop(self) -> Result<ProducerSummary> {
        self.end(Ending::Halted).await
    }

    async fn end(self, ending: Ending) -> Result<ProducerSummary> {
        self.shared.ending.send_replace(ending);
        self.shared.ended().await
    }
}

impl Shared {
    async fn ended(&self) -> Result<ProducerSummary> {
        let end = async || match self.task.lock().await.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(panicked)) => Err(gone().with_source(panicked)),
            None => Err(gone()),
        };
        self.ended.get_or_init(end).await.clone()
    }

    /// Returns the reason why nothing is taken any more.
    async fn failure(&self) -> Error {
        let error = self.ended().await.err().unwrap_or_else(not_taken);
        error.not_applied()
    }
}

/// Messages that were handed over.
#[derive(Debug)]
#[must_use = "nothing is known of the messages yet"]
pub struct Submission {
    answer: oneshot::Receiver<Result<Vec<Receipt>>>,
    place: Arc<JournalPlace>,
}

impl Submission {
    /// Waits until the sink has the messages, or they are known to be kept.
    ///
    /// # Errors
    ///
    /// As [`Producer::publish`]
    ///
    /// # Cancel safety   safe: it can be asked again, until it has answered
    pub async fn confirmed(&mut self) -> Result<Vec<Receipt>> {
        (&mut self.answer).await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Divides messages into as many as are handed over at once.
fn pieces(messages: Vec<ProducerMessage>) -> Vec<Vec<ProducerMessage>> {
    let mut pieces: Vec<Vec<ProducerMessage>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        bytes += size(&message);
        match pieces.last_mut() {
            Some(piece) if piece.len() < MOST_AT_ONCE as usize && bytes <= MOST_BYTES => {
                piece.push(message);
            }
            Some(_) | None => {
                bytes = size(&message);
                pieces.push(vec![message]);
            }
        }
    }
    pieces
}

/// Returns the bytes of a message.
fn size(message: &ProducerMessage) -> usize {
    let headers = message.headers.iter();
    let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
    let id = message.id.as_ref().map_or(0, |it| it.len());
    let order = message.order.as_ref().map_or(0, bytes::Bytes::len);
    message.payload.len() + headers + id + order
}

fn too_many_bytes() -> Error {
    let most = MOST_BYTES_AT_ONCE >> 20;
    let message = format!("at most {most} MiB are handed over at once");
    Error::new(ErrorKind::InvalidInput, message).not_applied()
}

/// The error of a producer that has ended, for messages that its journal may have.
fn gone() -> Error {
    let message =
        "the producer has ended; open it again, and it goes on with what was not confirmed";
    Error::new(ErrorKind::Unavailable, message)
}

/// The error of a producer that has ended, for messages that its journal has not.
fn not_taken() -> Error {
    let message = "the producer has ended, and did not take these messages";
    Error::new(ErrorKind::Unavailable, message).not_applied()
}

/// The requests that wait for the task; further ones wait before they are accepted.
const QUEUE: usize = 64;
/// The bytes after which a batch, a call of the sink or the queue of the task has no further message.
const MOST_BYTES: usize = 8 << 20;
