//! Laws of journals on a server: late calls, lost answers, a server that is killed, processes that begin at once.
//! A test of each store has the server, and the proxy before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::port::producer::ProducerJournal;
use semel_core::producer::Batch;
use semel_core::{Certainty, Code, ErrorKind, Result};
use tokio::task::JoinSet;

use super::turns::{has_these, numbered};
use super::{batch, opening};
use crate::proxy::Proxy;

/// A server of a test's own.
pub trait KilledServer {
    /// Kills it.
    fn kill(&mut self);

    /// Starts it again, on what it has kept.
    fn start(&mut self) -> impl Future<Output = ()>;
}

/// An append whose bytes arrive late changes nothing once there is a later opening, and nothing of it is there. `slow`
/// goes through `proxy`, and `fast` does not.
///
/// # Panics
///
/// When the law is broken.
pub async fn an_append_that_comes_late_is_fenced<J: ProducerJournal>(
    slow: J,
    fast: &J,
    proxy: &Proxy,
) {
    let opened = slow.open(&opening("billing", "orders")).await;
    let opened = opened.expect("opened").incarnation;
    let appended = slow.append(&opened, "orders", &batch(1, &["a"])).await;
    appended.expect("appended");
    proxy.hold();
    let late = tokio::spawn(async move {
        let late = slow.append(&opened, "orders", &batch(2, &["late"])).await;
        late.expect_err("fenced")
    });
    proxy.until(|seen| seen.held > 0).await;
    let later = fast.open(&opening("billing", "orders")).await;
    let later = later.expect("opened");
    assert_eq!(later.next, 2);
    proxy.release();
    let error = late.await.expect("no panic");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::ProducerFenced, Certainty::NotApplied)
    );
    let kept = fast.pending(&later.incarnation, "orders", 0, 10).await;
    assert_eq!(kept.expect("batches").len(), 1);
}

/// The call made again finds its batch known, whichever answer was lost, and it is there once. `cut` makes of a sequence
/// the bytes of a call that arrive before its connection is cut, and `least` is the least number of answers that have to
/// be lost.
///
/// # Panics
///
/// When the law is broken, or too few answers were lost.
pub async fn an_append_whose_answer_is_lost_is_known_when_it_is_made_again<J: ProducerJournal>(
    journal: &J,
    proxy: &Proxy,
    cut: impl Fn(u64) -> u64,
    least: u32,
) {
    let opened = journal.open(&opening("billing", "orders")).await;
    let opened = opened.expect("opened").incarnation;
    let (mut appended, mut unsure) = (Vec::new(), 0);
    for sequence in 1..=60 {
        match sequence % 3 {
            0 => proxy.cut_before_answer(1),
            1 => proxy.cut_after_client_bytes(cut(sequence)),
            _ => {}
        }
        let confirmed = if sequence % 2 == 0 { sequence / 2 } else { 0 };
        let one = Batch {
            confirmed,
            ..numbered(sequence, sequence)
        };
        while let Err(error) = journal.append(&opened, "orders", &one).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
            unsure += u32::from(error.certainty() == Certainty::MaybeApplied);
            proxy.heal();
        }
        proxy.heal();
        appended.push((sequence, sequence));
    }
    assert!(unsure >= least, "{unsure} answers lost");
    has_these(journal, &opened, 61, appended.split_off(30)).await;
}

/// A server that is killed keeps all that it has answered: messages, and epochs. `journal` opens the journal as
/// another process does.
///
/// # Panics
///
/// When the law is broken.
pub async fn what_was_answered_survives_a_killed_server<J: ProducerJournal>(
    server: &mut impl KilledServer,
    journal: impl Fn() -> J,
) {
    let mut appended = Vec::new();
    let mut epoch = 0;
    for round in 0..3 {
        let answered = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&answered);
        let process = journal();
        let process = tokio::spawn(async move {
            let opened = process.open(&opening("billing", "orders")).await;
            let opened = opened.expect("opened");
            let mut answers = Vec::new();
            let mut next = opened.next;
            loop {
                let message = round * 1_000_000 + next;
                let one = numbered(next, message);
                match process.append(&opened.incarnation, "orders", &one).await {
                    Ok(_) => answers.push((next, message)),
                    Err(_) => return (opened, answers, (next, message)),
                }
                next += 1;
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        while answered.load(Ordering::SeqCst) < 50 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        server.kill();
        let (opened, answers, last) = process.await.expect("no panic");
        assert_eq!(opened.incarnation.epoch, epoch + 1, "no epoch is lost");
        epoch = opened.incarnation.epoch;
        appended.extend(answers);
        server.start().await;
        // The last one may be there: the same incarnation appends it again.
        let one = numbered(last.0, last.1);
        let known = journal().append(&opened.incarnation, "orders", &one).await;
        known.expect("known or new");
        appended.push(last);
    }
    let journal = journal();
    let opened = journal.open(&opening("billing", "orders")).await;
    let opened = opened.expect("opened");
    assert_eq!(opened.incarnation.epoch, epoch + 1);
    has_these(&journal, &opened.incarnation, opened.next, appended).await;
}

/// Openings and migrations of a journal that is not there yet, all at once, find it or make it. `migrate` brings the
/// store forward, as `semel store migrate` does.
///
/// # Panics
///
/// When the law is broken.
pub async fn processes_that_make_the_tables_at_once_all_find_them<J, M>(
    journal: impl Fn() -> J,
    migrate: impl Fn() -> M,
) where
    J: ProducerJournal,
    M: Future<Output = Result<()>> + Send + 'static,
{
    let mut openings = JoinSet::new();
    for index in 0..8 {
        if index % 4 == 3 {
            let migrated = migrate();
            openings.spawn(async move { migrated.await.map(|()| 0) });
        } else {
            let journal = journal();
            openings.spawn(async move {
                let opened = journal.open(&opening("billing", "orders")).await;
                opened.map(|it| it.incarnation.epoch)
            });
        }
    }
    let epochs = openings.join_all().await.into_iter();
    let mut epochs: Vec<_> = epochs.map(|it| it.expect("made")).collect();
    epochs.sort_unstable();
    assert_eq!(epochs, [0, 0, 1, 2, 3, 4, 5, 6]);
}
