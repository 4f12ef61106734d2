//! A producer: what its openings know in common, as if they had it from one store, and what no answer may contradict.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::client::{number, shown};
use super::{ORDERED, STREAMS};
use crate::http::Reply;
use crate::outbox::{Order, Place};
use crate::{Moments, scaled};

/// A producer with sequences in each stream. What a sequence stands for is fixed from the beginning.
pub(super) struct Producer {
    pub(super) name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The epoch of the last opening.
    epoch: u64,
    /// The highest epoch of which an answer said that its messages were taken.
    taken: u64,
    streams: [Stream; STREAMS.len()],
}

/// The sequences of a stream.
#[derive(Debug)]
struct Stream {
    /// The next, as far as answers told.
    next: u64,
    /// The next if all that was sent so far had been taken.
    sent: u64,
    /// Those that were sent, and come behind others that were not.
    early: Vec<Range<u64>>,
    /// The one behind the last that was sent.
    end: u64,
    /// Those that an answer called new.
    new: BTreeSet<u64>,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            next: 1,
            sent: 1,
            early: Vec::new(),
            end: 1,
            new: BTreeSet::new(),
        }
    }
}

/// Messages that are about to be sent, and what was known before that.
#[derive(Debug)]
pub(super) struct Sent {
    stream: usize,
    pub(super) epoch: u64,
    range: Range<u64>,
    /// The word before the labels of what nobody may take.
    spoilt: Option<&'static str>,
    /// The next sequence, as far as answers had told.
    next: u64,
    /// The epoch of which messages were taken, as far as answers had told.
    taken: u64,
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Taken {
        new: u64,
        known: u64,
    },
    /// Messages before these are missing.
    Gap,
    /// The opening is over.
    Fenced,
}

/// The next step of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// To send messages, known and new ones.
    Any,
    /// To send what is next.
    Next,
    /// To hang up in the middle.
    Half,
}

impl Producer {
    pub(super) fn new(number: usize) -> Self {
        Self {
            name: format!("till-{number}"),
            state: Mutex::default(),
        }
    }

    /// Opens it once more; returns the epoch.
    pub(super) fn opens(&self) -> u64 {
        let mut state = self.state();
        state.epoch += 1;
        state.epoch
    }

    /// Picks messages for an opening to send. Those that nobody may take have labels of their own: what is cut off, and
    /// what an opening sends that is known to be over.
    pub(super) fn picks(&self, epoch: u64, plan: Plan, moments: &mut Moments) -> Sent {
        let mut state = self.state();
        let taken = state.taken;
        // What has an order runs one by one, and takes long.
        let at = usize::from(moments.below(4) != 0);
        let stream = &mut state.streams[at];
        let next = stream.next;
        let spoilt = match plan {
            _ if epoch < taken => Some("late-"),
            Plan::Half => Some("half-"),
            Plan::Any | Plan::Next => None,
        };
        let first = match moments.below(10) {
            _ if spoilt.is_some() || plan == Plan::Next => next,
            0 | 1 => 1 + moments.below(next),
            // The first of them are known.
            2 | 3 => next.saturating_sub(moments.below(4)).max(1),
            // Some before them are missing.
            4 => stream.sent + 1 + moments.below(4),
            _ => next,
        };
        let range = first..first + 1 + moments.below(scaled(16, 40));
        if spoilt.is_none() {
            stream.sends(range.clone());
        }
        Sent {
            stream: at,
            epoch,
            range,
            spoilt,
            next,
            taken,
        }
    }

    /// Takes note of an answer.
    ///
    /// # Panics
    ///
    /// If it contradicts what was known before the request was sent, or what was sent at all.
    pub(super) fn hears(&self, sent: &Sent, reply: &Reply) -> Heard {
        let mut state = self.state();
        let State {
            epoch,
            taken,
            streams,
        } = &mut *state;
        let stream = &mut streams[sent.stream];
        let story = || {
            let now = (stream.next, stream.sent);
            format!("{}: {} to {sent:?}, now {now:?}", self.name, shown(reply))
        };
        let told = |name| number(reply, name);
        let Range { start, end } = sent.range;
        match (reply.status, reply.code().as_deref()) {
            (200, None) => {
                assert_eq!(sent.spoilt, None, "it is over: {}", story());
                let (new, known, next) = (told("accepted"), told("duplicates"), told("next"));
                assert_eq!(new + known, end - start, "their number: {}", story());
                assert!(start <= stream.sent, "behind a gap: {}", story());
                let least = sent.next.clamp(start, end) - start;
                assert!(known >= least, "what was taken is forgotten: {}", story());
                let is_next = if new > 0 { next == end } else { next >= end };
                assert!(
                    is_next && next >= sent.next && next <= stream.sent,
                    "{}",
                    story()
                );
                for sequence in start + known..end {
                    let is_first = !stream.new.contains(&sequence);
                    assert!(is_first, "{sequence} is new twice: {}", story());
                }
                stream.new.extend(start + known..end);
                stream.next = stream.next.max(next);
                *taken = sent.epoch.max(*taken);
                Heard::Taken { new, known }
            }
            (409, Some("producer-fenced")) => {
                let by = told("epoch");
                let is_so = sent.epoch < by && (sent.taken..=*epoch).contains(&by);
                assert!(is_so, "{}", story());
                Heard::Fenced
            }
            (409, Some(code @ ("sequence-gap" | "producer-unknown"))) => {
                let expected = told("expected");
                assert!(sent.epoch >= sent.taken, "it is over: {}", story());
                let is_so = expected < start && (sent.next..=stream.sent).contains(&expected);
                assert!(is_so, "{}", story());
                assert!(code == "sequence-gap" || expected == 1, "{}", story());
                Heard::Gap
            }
            _ => panic!("{}", story()),
        }
    }

    /// The orders of these messages, in sequence.
    pub(super) fn orders(&self, sent: &Sent) -> Vec<Order> {
        let stream = STREAMS[sent.stream];
        let orders = sent.range.clone().map(|it| self.order(stream, it));
        let spoilt = sent.spoilt.unwrap_or_default();
        let orders = orders.map(|order| Order {
            label: format!("{spoilt}{}", order.label),
            ..order
        });
        orders.collect()
    }

    /// Tells whether an answer has said of everything that was sent that it is taken.
    pub(super) fn is_done(&self) -> bool {
        let state = self.state();
        state.streams.iter().all(|it| it.next >= it.end)
    }

    /// Everything that was taken, with its place in the order of its stream.
    pub(super) fn taken(&self) -> Vec<(Order, Place)> {
        let state = self.state();
        let streams = STREAMS.iter().zip(&state.streams);
        let orders = streams.flat_map(|(stream, it)| {
            (1..it.next).map(|sequence| (self.order(stream, sequence), (sequence, 0)))
        });
        orders.collect()
    }

    fn order(&self, stream: &str, sequence: u64) -> Order {
        Order {
            label: format!("{}-{stream}-{sequence}", self.name),
            account: if stream == ORDERED {
                self.name.clone()
            } else {
                String::new()
            },
            amount: sequence,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    /// Takes note that these are sent.
    fn sends(&mut self, range: Range<u64>) {
        self.end = self.end.max(range.end);
        self.early.push(range);
        self.early.sort_by_key(|it| it.start);
        while let Some(first) = self.early.first()
            && first.start <= self.sent
        {
            self.sent = self.sent.max(first.end);
            self.early.remove(0);
        }
    }
}

impl Sent {
    pub(super) fn stream(&self) -> &'static str {
        STREAMS[self.stream]
    }

    /// The headers that say whose these messages are, but for the producer.
    pub(super) fn numbers(&self) -> [String; 2] {
        [self.epoch, self.range.start].map(|it| it.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use serde_json::{Value, json};

    use super::*;

    /// A producer in its second epoch, of whose first stream 1 to 4 were taken, and 5 to 7 were sent.
    fn producer() -> Producer {
        let producer = Producer::new(0);
        let mut state = producer.state();
        (state.epoch, state.taken) = (2, 2);
        let stream = &mut state.streams[0];
        stream.sends(1..8);
        (stream.next, stream.new) = (5, (1..5).collect());
        drop(state);
        producer
    }

    fn sent(range: Range<u64>) -> Sent {
        Sent {
            stream: 0,
            epoch: 2,
            range,
            spoilt: None,
            next: 5,
            taken: 2,
        }
    }

    fn heard(sent: &Sent, status: u16, body: &Value) -> Option<Heard> {
        let hears = || producer().hears(sent, &Reply::told(status, body));
        catch_unwind(AssertUnwindSafe(hears)).ok()
    }

    fn taken(new: u64, known: u64, next: u64) -> Value {
        json!({"accepted": new, "duplicates": known, "next": next})
    }

    #[test]
    fn what_may_be_answered_is_taken_note_of() {
        let old = Sent {
            epoch: 1,
            ..sent(5..8)
        };
        let fenced = json!({"code": "producer-fenced", "epoch": 2});
        let gap = json!({"code": "sequence-gap", "expected": 6});
        for (sent, status, body, expected) in [
            (
                sent(5..8),
                200,
                taken(3, 0, 8),
                Heard::Taken { new: 3, known: 0 },
            ),
            (
                sent(4..8),
                200,
                taken(3, 1, 8),
                Heard::Taken { new: 3, known: 1 },
            ),
            // The answers to some of them were lost.
            (
                sent(5..8),
                200,
                taken(1, 2, 8),
                Heard::Taken { new: 1, known: 2 },
            ),
            (
                sent(1..3),
                200,
                taken(0, 2, 6),
                Heard::Taken { new: 0, known: 2 },
            ),
            (old, 409, fenced, Heard::Fenced),
            (sent(9..10), 409, gap, Heard::Gap),
        ] {
            assert_eq!(heard(&sent, status, &body), Some(expected), "{body}");
        }
    }

    #[test]
    fn what_contradicts_the_answers_before_is_seen() {
        let spoilt = Sent {
            spoilt: Some("half-"),
            ..sent(5..8)
        };
        let old = || Sent {
            epoch: 1,
            ..sent(5..8)
        };
        let earlier = Sent {
            next: 3,
            ..sent(3..8)
        };
        let gap = |expected| json!({"code": "sequence-gap", "expected": expected});
        let fenced = |epoch| json!({"code": "producer-fenced", "epoch": epoch});
        for (sent, status, body) in [
            (spoilt, 200, taken(3, 0, 8)),
            // One of them has no fate.
            (sent(5..8), 200, taken(2, 0, 8)),
            // Those before the fifth were told to be known.
            (sent(4..8), 200, taken(4, 0, 8)),
            // The same, told since it was sent.
            (earlier, 200, taken(5, 0, 8)),
            (sent(9..10), 200, taken(1, 0, 10)),
            (sent(5..8), 200, taken(3, 0, 9)),
            (sent(1..3), 200, taken(0, 2, 4)),
            (sent(1..3), 200, taken(0, 2, 9)),
            (sent(5..8), 409, fenced(2)),
            (old(), 409, fenced(1)),
            (old(), 409, fenced(3)),
            (old(), 409, gap(4)),
            (sent(5..8), 409, gap(5)),
            (sent(9..10), 409, gap(4)),
            (sent(9..10), 409, gap(9)),
            (
                sent(9..10),
                409,
                json!({"code": "producer-unknown", "expected": 6}),
            ),
            (sent(5..8), 202, taken(3, 0, 8)),
            (sent(5..8), 400, json!({"code": "invalid-input"})),
        ] {
            assert_eq!(
                heard(&sent, status, &body),
                None,
                "{status} {body} to {sent:?}"
            );
        }
    }

    #[test]
    fn what_nobody_may_take_has_labels_of_its_own() {
        let producer = producer();
        let mut moments = Moments::seeded(1);
        let mut labels = |epoch, plan| {
            let sent = producer.picks(epoch, plan, &mut moments);
            producer.orders(&sent).remove(0).label
        };
        assert!(labels(1, Plan::Any).starts_with("late-till-0-"));
        assert!(labels(2, Plan::Half).starts_with("half-till-0-"));
        assert!(labels(2, Plan::Next).starts_with("till-0-"));
        assert!(
            producer
                .taken()
                .iter()
                .all(|(it, _)| it.label.starts_with("till-0-orders-"))
        );
        assert!(!producer.is_done());
    }

    #[test]
    fn what_was_sent_early_counts_once_nothing_is_missing_before_it() {
        let mut stream = Stream::default();
        stream.sends(4..6);
        stream.sends(8..9);
        assert_eq!((stream.sent, stream.end), (1, 9));
        stream.sends(1..4);
        assert_eq!(stream.sent, 6);
        stream.sends(5..8);
        assert_eq!((stream.sent, stream.end), (9, 9));
    }
}
