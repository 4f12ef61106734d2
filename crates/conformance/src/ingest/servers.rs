//! Laws of journals on a server: two workers over one producer, lost answers, a server that is killed, processes that
//! begin at once. A test of each store has the server, and the proxy before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::ingest::{GateAnswer, Numbering, Submission};
use semel_core::port::ingest::IngestJournal;
use semel_core::producer::{ProducerMessage, decode};
use semel_core::{Certainty, ErrorKind, Result};
use tokio::task::JoinSet;

use super::{producer, sent};
use crate::producers::servers::KilledServer;
use crate::proxy::Proxy;

/// Of what a producer sends to two workers at once, each message is taken once, at its place, whichever of them has it
/// first, and whatever part of a request the other has.
///
/// # Panics
///
/// When the law is broken.
pub async fn workers_that_take_in_at_once_take_each_message_once<J: IngestJournal>(
    journal: impl Fn() -> J,
) {
    let mut workers = JoinSet::new();
    for worker in 0..4_u64 {
        let journal = journal();
        workers.spawn(async move {
            let (mut next, mut taken) = (1_u64, 0);
            while next <= 120 {
                // A part is known to whoever was faster, and each has requests of a length of its own.
                let first = next.saturating_sub(worker).max(1);
                let submission = numbered(1 + next / 50, first, (next + worker).min(120));
                match journal.submit(&submission).await.expect("an answer") {
                    GateAnswer::Taken {
                        new, next: behind, ..
                    } => {
                        taken += u64::from(new);
                        next = next.max(behind.min(next + worker + 1));
                    }
                    // Another one is further.
                    GateAnswer::Fenced { .. } => next += 1,
                    other => panic!("{other:?}"),
                }
            }
            taken
        });
    }
    let taken: u64 = workers.join_all().await.into_iter().sum();
    assert_eq!(taken, 120);
    has_these(&journal(), 120).await;
}

/// The call made again finds its messages known, whichever answer was lost, and they are there once. `cut` makes of a
/// sequence the bytes of a call that arrive before its connection is cut, and `least` is the least number of answers that
/// have to be lost.
///
/// # Panics
///
/// When the law is broken, or too few answers were lost.
pub async fn a_submission_whose_answer_is_lost_is_known_when_it_is_made_again<J: IngestJournal>(
    journal: &J,
    proxy: &Proxy,
    cut: impl Fn(u64) -> u64,
    least: u32,
) {
    let mut unsure = 0;
    for sequence in 1..=60 {
        match sequence % 3 {
            0 => proxy.cut_before_answer(1),
            1 => proxy.cut_after_client_bytes(cut(sequence)),
            _ => {}
        }
        // Each tenth message is the first of an epoch.
        let submission = numbered(1 + sequence / 10, sequence, sequence);
        loop {
            match journal.submit(&submission).await {
                Ok(GateAnswer::Taken { .. }) => break,
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
                    unsure += u32::from(error.certainty() == Certainty::MaybeApplied);
                    proxy.heal();
                }
            }
        }
        proxy.heal();
    }
    assert!(unsure >= least, "{unsure} answers lost");
    has_these(journal, 60).await;
}

/// A server that is killed keeps all that it has answered. `journal` opens the journal as another process does.
///
/// # Panics
///
/// When the law is broken.
pub async fn what_was_answered_survives_a_killed_server<J: IngestJournal>(
    server: &mut impl KilledServer,
    journal: impl Fn() -> J,
) {
    let mut next = 1;
    for _ in 0..3 {
        let answered = Arc::new(AtomicU64::new(0));
        let (counted, process) = (Arc::clone(&answered), journal());
        let process = tokio::spawn(async move {
            loop {
                let submission = numbered(1, next, next);
                match process.submit(&submission).await {
                    Ok(GateAnswer::Taken { .. }) => next += 1,
                    Ok(other) => panic!("{other:?}"),
                    Err(_) => return next,
                }
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        while answered.load(Ordering::SeqCst) < 50 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        server.kill();
        next = process.await.expect("no panic");
        server.start().await;
        // The last one may be there, and what came before it is: nothing is missing, or there would be a gap.
        let answer = journal().submit(&numbered(1, next, next)).await;
        let answer = answer.expect("known or new");
        assert!(matches!(answer, GateAnswer::Taken { .. }), "{answer:?}");
        next += 1;
    }
    has_these(&journal(), next - 1).await;
}

/// First submissions and migrations of a journal that is not there yet, all at once, find it or make it. `migrate` brings
/// the store forward, as `semel store migrate` does.
///
/// # Panics
///
/// When the law is broken.
pub async fn processes_that_make_the_tables_at_once_all_find_them<J, M>(
    journal: impl Fn() -> J,
    migrate: impl Fn() -> M,
) where
    J: IngestJournal,
    M: Future<Output = Result<()>> + Send + 'static,
{
    let mut calls = JoinSet::new();
    for index in 0..8_u64 {
        if index % 4 == 3 {
            let migrated = migrate();
            calls.spawn(async move { migrated.await.map(|()| 0) });
        } else {
            let journal = journal();
            calls.spawn(async move {
                let answer = journal.submit(&sent(1, 1, &["a"])).await?;
                let GateAnswer::Taken { new, .. } = answer else {
                    panic!("{answer:?}")
                };
                Ok(new)
            });
        }
    }
    let taken = calls.join_all().await.into_iter();
    let taken: u32 = taken.map(|it| it.expect("made")).sum();
    assert_eq!(taken, 1);
}

/// The messages of a producer from one sequence to another, each with its sequence.
fn numbered(epoch: u64, first: u64, last: u64) -> Submission {
    let message = |sequence: u64| ProducerMessage::new(sequence.to_string());
    Submission {
        numbering: Numbering::Sender {
            producer: producer("billing-0a"),
            epoch,
            first,
            is_any_first: false,
        },
        messages: (first..=last).map(message).collect(),
        ..sent(1, 1, &[])
    }
}

/// Asserts that every message up to a sequence is there once, at its place.
async fn has_these(journal: &impl IngestJournal, last: u64) {
    let (mut found, mut after) = (Vec::new(), 0);
    while after < last {
        let read = journal
            .accepted(&producer("billing-0a"), "orders", after, 50)
            .await;
        let read = read.expect("an answer").expect("a stream");
        assert_eq!(read.next, last + 1);
        assert!(!read.batches.is_empty(), "nothing behind {after}");
        for batch in read.batches {
            assert_eq!(batch.first, after + 1);
            for message in decode(&batch.body).expect("messages") {
                found.push(String::from_utf8(message.payload.to_vec()).expect("digits"));
            }
            after = batch.first + u64::from(batch.count) - 1;
        }
    }
    let expected: Vec<_> = (1..=last).map(|it| it.to_string()).collect();
    assert_eq!(found, expected);
}
