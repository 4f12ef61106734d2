//! Asking the journal about the messages of one producer.

use std::sync::Arc;

use semel_core::ingest::{GateAnswer, Numbering, Submission};
use semel_core::port::ingest::IngestJournal;
use semel_core::port::source::Delivery;
use semel_core::producer::ProducerName;
use semel_core::{Error, Result};
use tokio::time::Instant;

use super::Gate;
use super::numbers::{Numbers, kept};

/// A message that the journal was not asked about yet, or that waits for another one.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) numbers: Numbers,
    pub(super) delivery: Delivery,
    pub(super) read_at: Instant,
}

/// The journal's word about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It is durable, with the position of its producer.
    Taken,
    Known,
    Fenced {
        epoch: u64,
    },
    Gap {
        expected: u64,
    },
    Unknown {
        expected: u64,
    },
}

/// The words about the messages of a producer.
pub(super) struct Judged {
    pub(super) producer: ProducerName,
    pub(super) words: Vec<(Arrived, Word)>,
    /// Those that the journal did not answer about, which may be durable.
    pub(super) open: Vec<Arrived>,
    pub(super) error: Option<Error>,
}

/// Has the journal decide about messages of one producer, and keep those that are next.
///
/// # Cancel safety   what was asked may have been kept, and is known when it is asked again
pub(super) async fn judge(
    gate: Arc<Gate>,
    is_any_first: bool,
    producer: ProducerName,
    mut messages: Vec<Arrived>,
) -> Judged {
    // Older openings first, so that what they sent is not fenced by what came with it.
    messages.sort_by_key(|it| (it.numbers.epoch, it.numbers.sequence));
    let mut judged = Judged {
        producer,
        words: Vec::new(),
        open: Vec::new(),
        error: None,
    };
    while !messages.is_empty() {
        let rest = messages.split_off(run(&messages));
        let numbering = Numbering::Sender {
            producer: judged.producer.clone(),
            epoch: messages[0].numbers.epoch,
            first: messages[0].numbers.sequence,
            is_any_first,
        };
        match ask(&gate, numbering, &messages).await {
            Ok(words) => judged.words.extend(messages.into_iter().zip(words)),
            Err(error) => {
                judged.error = Some(error);
                judged.open = messages;
                judged.open.extend(rest);
                break;
            }
        }
        messages = rest;
    }
    judged
}

/// Returns the number of messages at the beginning that follow each other, and go into one submission.
fn run(messages: &[Arrived]) -> usize {
    let mut bytes = 0;
    let follows = messages.windows(2).take_while(|pair| {
        bytes += pair[0].delivery.payload.len();
        let (one, next) = (&pair[0].numbers, &pair[1].numbers);
        one.epoch == next.epoch && one.sequence + 1 == next.sequence && bytes < MOST_BYTES
    });
    follows.count() + 1
}

async fn ask(gate: &Gate, numbering: Numbering, run: &[Arrived]) -> Result<Vec<Word>> {
    let submission = Submission {
        numbering,
        stream: gate.options().stream.clone(),
        messages: run.iter().map(|it| kept(&it.delivery)).collect(),
        at: gate.now(),
    };
    let (journal, producer) = (gate.journal(), submission.producer());
    let all = |word| vec![word; run.len()];
    Ok(match journal.submit(&submission).await? {
        GateAnswer::Taken {
            known, new, next, ..
        } => {
            // What is known may be new here: an answer that was lost, or another worker, took it.
            gate.lanes().took(&producer, new, next);
            let known = usize::try_from(known).unwrap_or(usize::MAX);
            let word = |at| if at < known { Word::Known } else { Word::Taken };
            (0..run.len()).map(word).collect()
        }
        GateAnswer::Fenced { epoch } => {
            // A broker repeats what an earlier opening sent; only what is new of it is fenced.
            let last = run.last().map_or(0, |it| it.numbers.sequence);
            let read = journal.accepted(&producer, &submission.stream, last, 1);
            let next = read.await?.map_or(1, |it| it.next);
            let word = |it: &Arrived| match it.numbers.sequence {
                known if known < next => Word::Known,
                _ => Word::Fenced { epoch },
            };
            run.iter().map(word).collect()
        }
        GateAnswer::Gap { expected } => all(Word::Gap { expected }),
        GateAnswer::Unknown { expected } => all(Word::Unknown { expected }),
    })
}

/// The bytes of messages that are no longer added to.
const MOST_BYTES: usize = 4 << 20;
