//! Laws of processes that are at one producer at the same time, and the messages by which they are told apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use semel_core::Code;
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{
    Batch, Incarnation, ProducerMessage, ProducerOrder, Standing, decode, encode,
};
use tokio::task::JoinSet;

use super::{ProducerSubject, batch, opening};

/// Processes that take the producer from each other give out each sequence once, and lose nothing that was answered.
///
/// # Panics
///
/// When the law is broken.
pub async fn processes_that_fence_each_other_give_out_each_sequence_once<S: ProducerSubject>(
    store: S,
) {
    let mut processes = JoinSet::new();
    for process in 0..PROCESSES {
        let journal = store.journal().await;
        processes.spawn(async move { take_over(&journal, process).await });
    }
    let appended = processes.join_all().await.concat();
    let journal = store.journal().await;
    let opened = journal.open(&opening("billing", "orders")).await;
    let opened = opened.expect("opened");
    assert_eq!(opened.incarnation.epoch, PROCESSES * TAKEOVERS + 1);
    has_these(&journal, &opened.incarnation, opened.next, appended).await;
}

/// Opens again and again, and appends until it is fenced.
async fn take_over<J: ProducerJournal>(journal: &J, process: u64) -> Vec<(u64, u64)> {
    let mut appended = Vec::new();
    for takeover in 0..TAKEOVERS {
        let opened = journal.open(&opening("billing", "orders")).await;
        let opened = opened.expect("opened");
        for (next, number) in (opened.next..).zip(0..APPENDS) {
            let message = process * 1_000_000 + takeover * 1_000 + number;
            let one = numbered(next, message);
            match journal.append(&opened.incarnation, "orders", &one).await {
                Ok(_) => appended.push((next, message)),
                Err(error) => {
                    assert_eq!(error.code(), Code::ProducerFenced, "{error:?}");
                    break;
                }
            }
        }
    }
    appended
}

/// Freezing takes hold with its answer: whatever is appended afterwards has a limit.
///
/// # Panics
///
/// When the law is broken.
pub async fn an_order_beside_appends_takes_hold_with_its_answer<S: ProducerSubject>(store: S) {
    let (writer, operator) = (store.journal().await, store.journal().await);
    let opened = writer.open(&opening("billing", "orders")).await;
    let opened = opened.expect("opened").incarnation;
    let frozen = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&frozen);
    let mut appending = JoinSet::new();
    appending.spawn(async move {
        let (mut next, mut limited) = (1, 0);
        while limited < 5 {
            let is_frozen = seen.load(Ordering::SeqCst);
            let sent = Batch {
                confirmed: next - 1,
                ..numbered(next, next)
            };
            let standing = writer.append(&opened, "orders", &sent).await;
            let Standing { confirmed, limit } = standing.expect("appended");
            assert!(!is_frozen || limit.is_some(), "sequence {next}");
            if let Some(limit) = limit {
                assert!(limit <= confirmed, "{limit} of {confirmed}");
                limited += 1;
            }
            next += 1;
            tokio::task::yield_now().await;
        }
    });
    let name = "billing".parse().expect("a name");
    while operator.list().await.expect("a list")[0].streams[0].next < 5 {
        tokio::task::yield_now().await;
    }
    let ordered = operator.order(&name, ProducerOrder::Freeze).await;
    assert!(ordered.expect("frozen"));
    frozen.store(true, Ordering::SeqCst);
    appending.join_all().await;
}

/// Returns a batch of one message, which is this number.
pub fn numbered(first: u64, message: u64) -> Batch {
    let message = ProducerMessage::new(Bytes::from(message.to_string()));
    Batch {
        count: 1,
        body: encode(&[message]),
        ..batch(first, &[])
    }
}

/// Checks that a journal has these messages under these sequences, none confirmed, and no other behind the first of
/// them.
///
/// # Panics
///
/// If it has others.
pub async fn has_these<J: ProducerJournal>(
    journal: &J,
    incarnation: &Incarnation,
    next: u64,
    mut appended: Vec<(u64, u64)>,
) {
    appended.sort_unstable();
    let mut stored = Vec::new();
    let mut after = appended[0].0 - 1;
    loop {
        let page = journal.pending(incarnation, "orders", after, 100).await;
        let page = page.expect("a page");
        let Some(last) = page.last() else { break };
        after = last.first + u64::from(last.count) - 1;
        for batch in page {
            let messages = decode(&batch.body).expect("messages");
            for (sequence, message) in (batch.first..).zip(messages) {
                let text = String::from_utf8(message.payload.to_vec()).expect("a text");
                stored.push((sequence, text.parse().expect("a number")));
            }
        }
    }
    assert_eq!(stored, appended);
    assert_eq!(next, after + 1);
}

const PROCESSES: u64 = 3;
const TAKEOVERS: u64 = 6;
const APPENDS: u64 = 12;
