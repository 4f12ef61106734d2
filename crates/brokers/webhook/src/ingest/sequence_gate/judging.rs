//! Asking the journal about the messages of one producer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use semel_core::ingest::{GateAnswer, Numbering, Submission};
use semel_core::port::ingest::IngestJournal;
use semel_core::port::source::Delivery;
use semel_core::producer::ProducerName;
use semel_core::{Error, Result};

use super::Gate;
use super::numbers::{Numbers, kept};

/// A message that the journal was not asked about yet, or that waits for another one.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) numbers: Numbers,
    pub(super) delivery: Delivery,
    /// The time of the gate's clock at which it was read.
    pub(super) read_at: Duration,
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
    /// The number that is next now, if the journal said.
    pub(super) next: Option<u64>,
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
        next: None,
        error: None,
    };
    let mut messages = VecDeque::from(messages);
    let mut gap: Option<(u64, Word)> = None;
    while let Some(first) = messages.front() {
        // What comes behind a message that is missing need not be asked about.
        if let Some((expected, word)) = gap
            && first.numbers.sequence > expected
        {
            judged
                .words
                .extend(messages.pop_front().map(|it| (it, word)));
            continue;
        }
        let count = run(messages.make_contiguous());
        let asked: Vec<_> = messages.drain(..count).collect();
        match ask(
            &gate,
            numbering(&judged.producer, &asked[0], is_any_first),
            &asked,
        )
        .await
        {
            Ok(answer) => {
                gap = answer.gap();
                judged.next = judged.next.max(answer.next);
                judged.words.extend(asked.into_iter().zip(answer.words));
            }
            Err(error) => {
                judged.error = Some(error);
                judged.open = asked;
                judged.open.extend(messages);
                break;
            }
        }
    }
    judged
}

/// The journal's words about the messages of one submission.
struct Answer {
    words: Vec<Word>,
    /// The number that is next now, if the journal said.
    next: Option<u64>,
}

impl Answer {
    fn gap(&self) -> Option<(u64, Word)> {
        let word = *self.words.last()?;
        match word {
            Word::Gap { expected } | Word::Unknown { expected } => Some((expected, word)),
            Word::Taken | Word::Known | Word::Fenced { .. } => None,
        }
    }
}

fn numbering(producer: &ProducerName, first: &Arrived, is_any_first: bool) -> Numbering {
    Numbering::Sender {
        producer: producer.clone(),
        epoch: first.numbers.epoch,
        first: first.numbers.sequence,
        is_any_first,
    }
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

async fn ask(gate: &Gate, numbering: Numbering, run: &[Arrived]) -> Result<Answer> {
    let submission = Submission {
        numbering,
        stream: gate.options().stream.clone(),
        messages: run.iter().map(|it| kept(&it.delivery)).collect(),
        at: gate.now(),
    };
    let (journal, producer) = (gate.journal(), submission.producer());
    let all = |word| (vec![word; run.len()], None);
    let (words, next) = match journal.submit(&submission).await? {
        GateAnswer::Taken {
            known, new, next, ..
        } => {
            // What is known may be new here: an answer that was lost, or another worker, took it.
            gate.lanes().took(&producer, new, next);
            let known = usize::try_from(known).unwrap_or(usize::MAX);
            let word = |at| if at < known { Word::Known } else { Word::Taken };
            ((0..run.len()).map(word).collect(), Some(next))
        }
        GateAnswer::Fenced { epoch } => {
            // A broker repeats what an earlier opening sent; only what is new of it is fenced.
            let last = run.last().map_or(0, |it| it.numbers.sequence);
            let read = journal.accepted(&producer, &submission.stream, last, 1);
            let next = read.await?.map_or(1, |it| it.next);
            let word = |it: &Arrived| match it.numbers.sequence {
                known if known < next || semel_core::planted("X47") => Word::Known,
                _ => Word::Fenced { epoch },
            };
            (run.iter().map(word).collect(), None)
        }
        GateAnswer::Gap { expected } => {
            let (words, _) = all(Word::Gap { expected });
            // Another worker may have taken what was missing of those that are held.
            (words, Some(expected))
        }
        GateAnswer::Unknown { expected } => all(Word::Unknown { expected }),
    };
    Ok(Answer { words, next })
}

/// The bytes of messages that are no longer added to.
const MOST_BYTES: usize = 4 << 20;
