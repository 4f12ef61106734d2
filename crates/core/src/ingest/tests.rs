use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::producer::ProducerOrder;

/// A request of a producer.
#[derive(Clone, Copy, Debug)]
struct Sent {
    epoch: u64,
    first: u64,
    count: u32,
}

fn sent() -> impl Strategy<Value = Sent> {
    (1..5_u64, 1..14_u64, 1..6_u32).prop_map(|(epoch, first, count)| Sent {
        epoch,
        first,
        count,
    })
}

/// A gate, and what came through it: by sequence, how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Gate {
    on_record: Option<Position>,
    through: BTreeMap<u64, u32>,
}

impl Gate {
    fn send(&mut self, sent: Sent, is_any_first: bool) -> GateAnswer {
        let answer = decide(
            self.on_record,
            sent.epoch,
            sent.first,
            sent.count,
            is_any_first,
        );
        if let GateAnswer::Taken {
            known, new, next, ..
        } = answer
        {
            assert_eq!(known + new, sent.count, "{sent:?}");
            for sequence in next - u64::from(new)..next {
                *self.through.entry(sequence).or_default() += 1;
            }
            let position = self.on_record.get_or_insert_default();
            position.epoch = position.epoch.max(sent.epoch);
            position.next = Some(next);
        }
        answer
    }
}

proptest! {
    #[test]
    fn each_message_comes_through_once_in_order_and_without_a_gap(
        all in prop::collection::vec(sent(), 1..40),
        is_any_first: bool,
    ) {
        let mut gate = Gate::default();
        for sent in all {
            let before = gate.clone();
            let answer = gate.send(sent, is_any_first);
            let highest = before.on_record.map_or(0, |it| it.epoch);
            match answer {
                GateAnswer::Taken { known, next, .. } => {
                    prop_assert!(sent.epoch >= highest);
                    let all_there = (sent.first..sent.first + u64::from(sent.count))
                        .all(|it| gate.through.get(&it) == Some(&1));
                    // What came before the first of a stream that began later is known as well.
                    let begin = gate.through.keys().next().copied().unwrap_or(next);
                    prop_assert!(all_there || sent.first < begin);
                    prop_assert!(u64::from(known) <= next);
                }
                GateAnswer::Fenced { epoch } => {
                    prop_assert!(sent.epoch < highest);
                    prop_assert_eq!(epoch, highest);
                }
                GateAnswer::Gap { expected } => {
                    prop_assert!(sent.first > expected);
                    prop_assert!(!gate.through.contains_key(&expected));
                }
                GateAnswer::Unknown { expected } => {
                    prop_assert!(before.on_record.is_none() && !is_any_first);
                    prop_assert!(expected == 1 && sent.first != 1);
                }
            }
            if !matches!(answer, GateAnswer::Taken { .. }) {
                prop_assert_eq!(&gate, &before, "what is refused changes nothing");
            }
            prop_assert!(gate.through.values().all(|times| *times == 1));
            if let (Some((first, _)), Some((last, _))) =
                (gate.through.first_key_value(), gate.through.last_key_value())
            {
                prop_assert_eq!(gate.through.len() as u64, last - first + 1, "no gap");
            }
        }
    }

    #[test]
    fn the_same_once_more_is_known_and_a_batch_in_two_parts_is_the_batch(
        before in prop::collection::vec(sent(), 0..10),
        last in sent(),
        cut in 1..5_u32,
    ) {
        let mut gate = Gate::default();
        for sent in before {
            gate.send(sent, true);
        }
        let (mut whole, mut parts) = (gate.clone(), gate);
        let answer = whole.send(last, true);
        if matches!(answer, GateAnswer::Taken { .. }) {
            let taken = whole.clone();
            let again = whole.send(last, true);
            let is_known = matches!(again, GateAnswer::Taken { known, new: 0, .. } if known == last.count);
            prop_assert!(is_known, "{:?}", again);
            prop_assert_eq!(&whole, &taken);
        }
        if cut < last.count {
            parts.send(Sent { count: cut, ..last }, true);
            let first = last.first + u64::from(cut);
            parts.send(Sent { first, count: last.count - cut, ..last }, true);
            prop_assert_eq!(parts, whole);
        }
    }
}

#[test]
fn an_answer_for_each_case() {
    let at = |epoch, next| {
        Some(Position {
            epoch,
            next,
            is_frozen: false,
        })
    };
    let taken = |known, new, next| GateAnswer::Taken {
        known,
        new,
        next,
        is_kept: false,
    };
    for (on_record, (epoch, first, count), is_any_first, expected) in [
        (None, (1, 1, 3), false, taken(0, 3, 4)),
        (None, (1, 7, 1), false, GateAnswer::Unknown { expected: 1 }),
        (None, (1, 7, 1), true, taken(0, 1, 8)),
        (at(2, Some(8)), (2, 8, 1), false, taken(0, 1, 9)),
        (at(2, Some(8)), (2, 7, 1), false, taken(1, 0, 8)),
        (at(2, Some(8)), (3, 6, 4), false, taken(2, 2, 10)),
        (
            at(2, Some(8)),
            (2, 9, 1),
            true,
            GateAnswer::Gap { expected: 8 },
        ),
        (
            at(2, Some(8)),
            (1, 8, 1),
            false,
            GateAnswer::Fenced { epoch: 2 },
        ),
        // Fenced, although it is known, and although something is missing.
        (
            at(2, Some(8)),
            (1, 3, 1),
            false,
            GateAnswer::Fenced { epoch: 2 },
        ),
        (
            at(2, Some(8)),
            (1, 30, 1),
            false,
            GateAnswer::Fenced { epoch: 2 },
        ),
        // The epoch is that of the producer, whatever the stream.
        (
            at(2, None),
            (1, 1, 1),
            false,
            GateAnswer::Fenced { epoch: 2 },
        ),
        (at(2, None), (2, 1, 1), false, taken(0, 1, 2)),
    ] {
        let answer = decide(on_record, epoch, first, count, is_any_first);
        assert_eq!(answer, expected, "{on_record:?} {epoch} {first} {count}");
    }
}

#[test]
fn only_what_is_new_of_a_frozen_producer_is_kept() {
    let frozen = Some(Position {
        epoch: 1,
        next: Some(3),
        is_frozen: true,
    });
    for (first, kept) in [(3, true), (2, true), (1, false)] {
        let answer = decide(frozen, 1, first, 2, false);
        let GateAnswer::Taken { is_kept, .. } = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(is_kept, kept, "from {first}");
    }
}

#[test]
fn messages_that_nobody_numbers_are_put_behind_and_known_by_their_digest() {
    let submission = |digest| Submission {
        numbering: Numbering::Arrival { digest },
        stream: "orders".into(),
        messages: [ProducerMessage::new("a"), ProducerMessage::new("b")].into(),
        at: Timestamp::from_millis(1),
    };
    let at = Some(Position {
        epoch: 1,
        next: Some(5),
        is_frozen: false,
    });
    let taken = |known, new, next| GateAnswer::Taken {
        known,
        new,
        next,
        is_kept: false,
    };
    let one = submission(Some([7; 32]));
    assert_eq!(one.decide(None, false), taken(0, 2, 3));
    assert_eq!(one.decide(at, false), taken(0, 2, 7));
    assert_eq!(one.decide(at, true), taken(2, 0, 5));
    assert_eq!(submission(None).decide(at, false), taken(0, 2, 7));
    let batch = one.batch(0, 2, 7);
    assert_eq!((batch.first, batch.end()), (5, 7));
    assert_eq!(batch.input.map(|it| it.digest), Some([7; 32]));
}

#[test]
fn a_batch_has_the_messages_that_are_new() {
    let submission = Submission {
        numbering: Numbering::Sender {
            producer: "billing-0a".parse().expect("a name"),
            epoch: 1,
            first: 4,
            is_any_first: false,
        },
        stream: "orders".into(),
        messages: ["a", "b", "c"].map(ProducerMessage::new).into(),
        at: Timestamp::from_millis(9),
    };
    let batch = submission.batch(2, 1, 7);
    assert_eq!((batch.first, batch.count, batch.at), (6, 1, submission.at));
    let messages = crate::producer::decode(&batch.body).expect("messages");
    assert_eq!(messages, [ProducerMessage::new("c")]);
}

#[test]
fn who_is_silent_is_forgotten_once_all_is_settled() {
    let at = Timestamp::from_millis(1_000_000);
    let submission = Submission {
        numbering: Numbering::Sender {
            producer: ProducerName::of_sender("p").expect("a name"),
            epoch: 1,
            first: 1,
            is_any_first: false,
        },
        stream: "orders".into(),
        messages: [ProducerMessage::new("a")].into(),
        at,
    };
    let mut ledger = Ledger::<()>::of_sender(&submission.producer());
    ledger.adopt(&submission);
    ledger.append("orders", &submission.batch(0, 1, 2), ());
    let day = Duration::from_secs(86_400);
    let silent = |ledger: &mut Ledger<()>, days: u32| {
        ledger.silent(&Silence {
            stream: "orders".into(),
            longest: day,
            now: at.plus(day * days),
            after: None,
            most: 1,
        })
    };
    assert_eq!(silent(&mut ledger, 5), None, "it waits");
    // Its time counts from when it was settled.
    ledger.settle("orders", 1, at.plus(day * 4));
    assert_eq!(silent(&mut ledger, 5), None);
    ledger.order(ProducerOrder::Freeze);
    assert_eq!(silent(&mut ledger, 9), None, "an operator's order is kept");
    ledger.order(ProducerOrder::Thaw);
    assert_eq!(silent(&mut ledger, 9), Some(SilentStream::Forgotten));
    // An older version left no time.
    ledger.streams.get_mut("orders").expect("a stream").heard = Timestamp::EPOCH;
    assert_eq!(silent(&mut ledger, 9), Some(SilentStream::Stamped));
    assert_eq!(silent(&mut ledger, 9), None);
    assert_eq!(silent(&mut ledger, 11), Some(SilentStream::Forgotten));
}
