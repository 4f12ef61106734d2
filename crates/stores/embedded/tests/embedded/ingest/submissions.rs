//! Submissions that come while the disk is busy, which are written together: a life of them, cut off after every single
//! file operation, and on a disk that is full.

use std::io::ErrorKind;

use semel_store_embedded::files::Files as _;

use super::*;

/// Submits what fits into the order while the disk is held, so that it waits together; returns the answers.
async fn submit_together(
    journal: &EmbeddedIngest,
    disk: &Disk,
    submissions: Vec<Submission>,
) -> Vec<Result<GateAnswer>> {
    let held = disk.lock("billing-0a.lock").ok().expect("nobody has it");
    let calls = submissions.into_iter().map(|submission| {
        let journal = journal.clone();
        tokio::spawn(async move { journal.submit(&submission).await })
    });
    let calls: Vec<_> = calls.collect();
    // Each of them has its place in the queue after this.
    tokio::task::yield_now().await;
    drop(held);
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.expect("no panic"));
    }
    answers
}

/// A message each, from `first` on.
fn letters(first: u64, letters: &[&'static str]) -> Vec<Submission> {
    let numbered = (first..).zip(letters);
    numbered.map(|(first, it)| sent(1, first, &[it])).collect()
}

/// The first message alone, and then the others together.
async fn life_of_groups(disk: &Disk) -> (State, State) {
    let journal = EmbeddedIngest::open_in(Arc::new(disk.clone()));
    let (mut promised, mut tried) = (State::default(), State::default());
    for (first, group) in [(1, &["a"][..]), (2, &["b", "c", "d", "e", "f", "g"])] {
        tried.epoch = 1;
        tried.taken += group.len() as u64;
        for answer in submit_together(&journal, disk, letters(first, group)).await {
            if let Ok(answer) = answer {
                promised.epoch = 1;
                promised.taken += 1;
                let next = promised.taken + 1;
                let is_next =
                    matches!(answer, GateAnswer::Taken { new: 1, next: it, .. } if it == next);
                assert!(is_next, "{answer:?} for {next}");
            }
        }
    }
    (promised, tried)
}

#[tokio::test]
async fn what_waits_for_the_disk_shares_a_write_and_a_sync() {
    let disk = Disk::new(Plan::Nothing, Planted::Nothing);
    let journal = EmbeddedIngest::open_in(Arc::new(disk.clone()));
    let first = submit_together(&journal, &disk, letters(1, &["a"])).await;
    assert!(first[0].is_ok(), "{first:?}");
    let before = disk.operations();
    let answers =
        submit_together(&journal, &disk, letters(2, &["b", "c", "d", "e", "f", "g"])).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    // The first of them may have been taken before the others came.
    let operations = disk.operations() - before;
    assert!(operations <= 4, "{operations} for six submissions");
    let (promised, tried) = life_of_groups(&Disk::new(Plan::Nothing, Planted::Nothing)).await;
    assert_eq!((promised.taken, tried.taken), (7, 7));
}

#[tokio::test]
async fn no_message_of_a_group_that_was_answered_is_lost_wherever_the_power_goes() {
    let counted = Disk::new(Plan::Nothing, Planted::Nothing);
    life_of_groups(&counted).await;
    for last in 0..counted.operations() {
        let disk = Disk::new(Plan::CrashAfter(last), Planted::Nothing);
        let (promised, tried) = life_of_groups(&disk).await;
        for survival in Survival::ALL {
            if let Some(how) = broken(&disk.survivor(survival), promised, tried).await {
                panic!("power cut after operation {last}, {survival:?}: {how}");
            }
        }
    }
}

#[tokio::test]
async fn what_a_full_disk_refused_is_new_when_it_comes_again() {
    let counted = Disk::new(Plan::Nothing, Planted::Nothing);
    life_of_groups(&counted).await;
    let mut was_refused = false;
    for at in 0..counted.operations() {
        let disk = Disk::new(Plan::Fail(at, ErrorKind::StorageFull), Planted::Nothing);
        let journal = EmbeddedIngest::open_in(Arc::new(disk.clone()));
        submit_together(&journal, &disk, letters(1, &["a"])).await;
        let group = || letters(2, &["b", "c", "d", "e", "f", "g"]);
        let answers = submit_together(&journal, &disk, group()).await;
        let taken = |it: &&Result<GateAnswer>| matches!(it, Ok(GateAnswer::Taken { .. }));
        let count = answers.iter().filter(taken).count();
        let is_full = |it: &Result<GateAnswer>| {
            it.as_ref()
                .is_err_and(|it| it.kind() == semel_core::ErrorKind::Unavailable)
        };
        if count == group().len() || !answers.iter().any(is_full) {
            continue;
        }
        was_refused = true;
        // A disk that could not even be cut back leaves the log to the next process.
        let again = submit_together(&journal, &disk, group()).await;
        let new = again
            .iter()
            .filter(|it| matches!(it, Ok(GateAnswer::Taken { new: 1, .. })));
        assert_eq!(
            new.count() + count,
            group().len(),
            "{at}: {answers:?} {again:?}"
        );
        let promised = State {
            epoch: 1,
            taken: 7,
            ..State::default()
        };
        if let Some(how) = broken(&disk, promised, promised).await {
            panic!("full at operation {at}: {how}");
        }
    }
    assert!(was_refused, "no group met a full disk");
}
