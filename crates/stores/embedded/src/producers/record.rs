//! The records of a producer's log.

use semel_core::Timestamp;
use semel_core::producer::ledger::{KeptBatch, Ledger, Stream};
use semel_core::producer::{Batch, InputMark, ProducerName};

use crate::wire::{Put, Take};

/// The place of a batch's messages in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// A record that is appended.
pub(super) enum Record<'a> {
    /// The producer, at the begin of a log.
    Producer(&'a Ledger<Location>),
    /// A stream without its batches.
    Stream(&'a str, &'a Stream<Location>),
    /// A batch that an earlier log had, and its messages.
    Kept(&'a str, &'a KeptBatch<Location>, &'a [u8]),
    /// A batch.
    Append(&'a str, &'a Batch),
    /// A confirmation.
    Confirm(&'a str, u64),
    /// A confirmation of messages that others send, and its time.
    Settled(&'a str, u64, Timestamp),
    /// The times of a stream of messages that others send: its begin, and its last message.
    Times(&'a str, u64, Timestamp),
    /// Records of kind append that are there together or not at all, each with its length before it.
    Together(&'a [u8]),
}

impl Record<'_> {
    /// Writes the record. The messages of a batch are the last of it.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Producer(ledger) => {
                to.push(PRODUCER);
                to.put_bytes(ledger.name.as_str().as_bytes());
                to.put_bytes(ledger.id.as_bytes());
                to.put_number(ledger.epoch);
                to.push(u8::from(ledger.is_frozen));
            }
            Self::Stream(name, stream) => {
                to.push(STREAM);
                to.put_bytes(name.as_bytes());
                to.put_bytes(stream.target.as_bytes());
                for number in [stream.next, stream.confirmed, stream.released] {
                    to.put_number(number);
                }
                to.put_number(stream.inputs.len() as u64);
                for input in &stream.inputs {
                    put_input(to, input);
                }
            }
            Self::Kept(stream, kept, body) => {
                to.push(KEPT);
                to.put_bytes(stream.as_bytes());
                to.put_number(kept.first);
                to.put_number(kept.count.into());
                to.put_number(kept.at.as_millis());
                to.extend_from_slice(body);
            }
            Self::Append(stream, batch) => {
                to.push(APPEND);
                to.put_bytes(stream.as_bytes());
                to.put_number(batch.first);
                to.put_number(batch.count.into());
                to.put_number(batch.at.as_millis());
                to.put_number(batch.confirmed);
                to.push(u8::from(batch.input.is_some()));
                if let Some(input) = &batch.input {
                    put_input(to, input);
                }
                to.extend_from_slice(&batch.body);
            }
            Self::Confirm(stream, through) => {
                to.push(CONFIRM);
                to.put_bytes(stream.as_bytes());
                to.put_number(*through);
            }
            Self::Settled(stream, through, at) => {
                to.push(SETTLED);
                to.put_bytes(stream.as_bytes());
                to.put_number(*through);
                to.put_number(at.as_millis());
            }
            Self::Times(stream, begun, heard) => {
                to.push(TIMES);
                to.put_bytes(stream.as_bytes());
                to.put_number(*begun);
                to.put_number(heard.as_millis());
            }
            Self::Together(records) => {
                to.push(TOGETHER);
                to.extend_from_slice(records);
            }
        }
    }
}

/// Takes a record into the state; `at` is where it begins in the log. Nothing if it is no record.
pub(super) fn apply(state: &mut Option<Ledger<Location>>, record: &[u8], at: u64) -> Option<()> {
    let Some((&TOGETHER, mut records)) =
        record.split_first().map(|(kind, it)| (kind, Take::new(it)))
    else {
        return apply_one(state, record, at);
    };
    while !records.is_empty() {
        let one = records.bytes().filter(|it| it.first() == Some(&APPEND))?;
        let begin = record.len() - records.len() - one.len();
        apply_one(state, one, at + begin as u64)?;
    }
    Some(())
}

fn apply_one(state: &mut Option<Ledger<Location>>, record: &[u8], at: u64) -> Option<()> {
    let mut take = Take::new(record);
    let kind = take.byte()?;
    if kind == PRODUCER {
        let name = ProducerName::of_sender(take.text()?).ok()?;
        let id = take.text()?.into();
        let (epoch, is_frozen) = (take.number()?, take.byte()? != 0);
        *state = Some(Ledger {
            name,
            id,
            epoch,
            is_frozen,
            streams: std::collections::BTreeMap::new(),
        });
        return Some(());
    }
    let ledger = state.as_mut()?;
    let name = take.text()?;
    match kind {
        STREAM => {
            let target = take.text()?.into();
            let [next, confirmed, released] = [take.number()?, take.number()?, take.number()?];
            let inputs = (0..take.number()?).map(|_| input(&mut take));
            let stream = Stream {
                target,
                next: next.max(1),
                confirmed,
                released,
                batches: std::collections::VecDeque::new(),
                inputs: inputs.collect::<Option<_>>()?,
                begun: 0,
                heard: Timestamp::EPOCH,
            };
            ledger.streams.insert(name.into(), stream);
        }
        KEPT => {
            let (first, count, at_time) = (take.number()?, take.small()?, take.timestamp()?);
            let kept = KeptBatch {
                first,
                count,
                body: rest(&take, record, at),
                at: at_time,
            };
            ledger.streams.get_mut(name)?.batches.push_back(kept);
        }
        APPEND => {
            let (first, count, at_time) = (take.number()?, take.small()?, take.timestamp()?);
            let confirmed = take.number()?;
            let input = match take.byte()? {
                0 => None,
                _ => Some(input(&mut take)?),
            };
            let batch = Batch {
                first,
                count,
                body: bytes::Bytes::new(),
                input,
                confirmed,
                at: at_time,
            };
            if ledger.streams.get(name)?.next != first {
                return None;
            }
            ledger.append(name, &batch, rest(&take, record, at));
        }
        CONFIRM => ledger.confirm(name, take.number()?),
        SETTLED => {
            let (through, at) = (take.number()?, take.timestamp()?);
            ledger.settle(name, through, at);
        }
        TIMES => {
            let (begun, heard) = (take.number()?, take.timestamp()?);
            let stream = ledger.streams.get_mut(name)?;
            (stream.begun, stream.heard) = (begun, heard);
        }
        _ => return None,
    }
    Some(())
}

/// Returns the place of what is left of a record.
fn rest(take: &Take<'_>, record: &[u8], at: u64) -> Location {
    let skipped = record.len() - take.len();
    Location {
        offset: at + skipped as u64,
        len: u32::try_from(take.len()).unwrap_or(u32::MAX),
    }
}

fn put_input(to: &mut Vec<u8>, input: &InputMark) {
    to.extend_from_slice(&input.digest);
    to.put_number(input.rows);
    to.put_number(input.bytes);
    to.push(u8::from(input.is_whole));
}

fn input(take: &mut Take<'_>) -> Option<InputMark> {
    Some(InputMark {
        digest: take.array()?,
        rows: take.number()?,
        bytes: take.number()?,
        is_whole: take.byte()? != 0,
    })
}

const PRODUCER: u8 = 1;
const STREAM: u8 = 2;
const KEPT: u8 = 3;
const APPEND: u8 = 4;
const CONFIRM: u8 = 5;
const TIMES: u8 = 6;
const SETTLED: u8 = 7;
const TOGETHER: u8 = 8;
