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
    let held = disk.lock("billing-0a.lock").expect("nobody has it");
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
        let answers = submit_together(&journal, disk, letters(first, group)).await;
        for answer in answers.into_iter().flatten() {
            promised.epoch = 1;
            promised.taken += 1;
            let next = promised.taken + 1;
            let is_next =
                matches!(answer, GateAnswer::Taken { new: 1, next: it, .. } if it == next);
            assert!(is_next, "{answer:?} for {next}");
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
    // How many operations a life has depends on who was taken before the others came.
    for last in 0.. {
        let disk = Disk::new(Plan::CrashAfter(last), Planted::Nothing);
        let (promised, tried) = life_of_groups(&disk).await;
        if disk.operations() <= last {
            assert!(last > 8, "{last} crash points are too few");
            break;
        }
        for survival in Survival::ALL {
            if let Some(how) = broken(&disk.survivor(survival), promised, tried).await {
                panic!("power cut after operation {last}, {survival:?}: {how}");
            }
        }
    }
}

#[tokio::test]
async fn what_a_full_disk_refused_is_new_when_it_comes_again() {
    let mut was_refused = false;
    for at in 0.. {
        let disk = Disk::new(Plan::Fail(at, ErrorKind::StorageFull), Planted::Nothing);
        let journal = EmbeddedIngest::open_in(Arc::new(disk.clone()));
        submit_together(&journal, &disk, letters(1, &["a"])).await;
        let group = || letters(2, &["b", "c", "d", "e", "f", "g"]);
        let answers = submit_together(&journal, &disk, group()).await;
        if disk.operations() <= at {
            break;
        }
        let is_taken = |it: &&Result<GateAnswer>| matches!(it, Ok(GateAnswer::Taken { .. }));
        let count = answers.iter().filter(is_taken).count();
        let is_full = |it: &Result<GateAnswer>| {
            let error = it.as_ref().err();
            error.is_some_and(|it| it.code() == semel_core::Code::StoreFull)
        };
        if !answers.iter().any(is_full) {
            continue;
        }
        was_refused = true;
        let again = submit_together(&journal, &disk, group()).await;
        let is_new = |it: &&Result<GateAnswer>| matches!(it, Ok(GateAnswer::Taken { new: 1, .. }));
        let new = again.iter().filter(is_new).count();
        assert_eq!(new + count, group().len(), "{at}: {answers:?} {again:?}");
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

/// A message of so many bytes.
fn large(first: u64, len: usize) -> Submission {
    let mut submission = sent(1, first, &["x"]);
    let mut message = submission.messages[0].clone();
    message.payload = vec![b'x'; len].into();
    submission.messages = [message].into();
    submission
}

/// The payloads that are kept, as the journal that wrote them reads them.
async fn payloads(journal: &EmbeddedIngest) -> Vec<String> {
    let read = journal
        .accepted(&producer("billing-0a"), "orders", 0, 99)
        .await;
    let batches = read.expect("an answer").expect("a stream").batches;
    let messages = batches
        .iter()
        .flat_map(|it| decode(&it.body).expect("a batch"));
    messages
        .map(|it| match it.payload.len() {
            1 => String::from_utf8_lossy(&it.payload).into_owned(),
            len => len.to_string(),
        })
        .collect()
}

#[tokio::test]
async fn what_is_written_together_is_read_where_it_lies() {
    let disk = Disk::new(Plan::Nothing, Planted::Nothing);
    let journal = EmbeddedIngest::open_in(Arc::new(disk.clone()));
    let mut group = letters(1, &["a", "b", "c"]);
    group.push(large(4, 8 << 20));
    group.extend(letters(5, &["e"]));
    // A repeat within the group, a gap, and a later opening.
    group.extend(letters(5, &["e"]));
    group.extend(letters(9, &["i"]));
    group.push(sent(2, 6, &["f"]));
    group.push(sent(2, 7, &["g"]));
    let answers = submit_together(&journal, &disk, group).await;
    let new: Vec<_> = answers
        .iter()
        .map(|it| match it {
            Ok(GateAnswer::Taken { new, .. }) => i64::from(*new),
            Ok(_) => -1,
            Err(error) => panic!("{error}"),
        })
        .collect();
    assert_eq!(new, [1, 1, 1, 1, 1, 0, -1, 1, 1]);
    let all = ["a", "b", "c", "8388608", "e", "f", "g"];
    assert_eq!(payloads(&journal).await, all);
    let again = EmbeddedIngest::open_in(Arc::new(disk));
    assert_eq!(payloads(&again).await, all);
}

#[tokio::test]
async fn the_same_request_twice_in_a_group_is_taken_once() {
    let disk = Disk::new(Plan::Nothing, Planted::Nothing);
    let journal = EmbeddedIngest::open_in(Arc::new(disk.clone()));
    let arrived = |payload: &'static str| Submission {
        numbering: Numbering::Arrival {
            digest: Some([payload.as_bytes()[0]; 32]),
        },
        ..sent(1, 1, &[payload])
    };
    journal.submit(&arrived("a")).await.expect("taken");
    let held = disk.lock("semel-ingest.lock").expect("nobody has it");
    let calls = ["b", "c", "b", "a", "c"].map(|it| {
        let (journal, submission) = (journal.clone(), arrived(it));
        tokio::spawn(async move { journal.submit(&submission).await })
    });
    tokio::task::yield_now().await;
    drop(held);
    let mut new = Vec::new();
    for call in calls {
        match call.await.expect("no panic").expect("an answer") {
            GateAnswer::Taken { new: count, .. } => new.push(count),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(new, [1, 1, 0, 0, 0]);
}

/// The bytes of the log.
fn length(disk: &Disk) -> u64 {
    let log = disk.open("billing-0a.journal").expect("a log");
    log.len_bytes().expect("a length")
}

/// Fills a log with 40 MiB that wait, and settles them; returns the sequence of the next message.
async fn fill_and_settle(journal: &EmbeddedIngest, mut next: u64) -> Result<u64> {
    for _ in 0..5 {
        journal.submit(&large(next, 8 << 20)).await?;
        next += 1;
    }
    let billing = producer("billing-0a");
    let read = journal.accepted(&billing, "orders", next - 2, 1).await?;
    let begun = read.expect("a stream").begun;
    let done = settled(begun, next - 1);
    journal.settle(&billing, "orders", done).await?;
    Ok(next)
}

#[tokio::test]
async fn a_log_that_is_settled_is_short_again_though_the_disk_was_full_or_it_was_long_before() {
    let whole = Disk::new(Plan::Nothing, Planted::Nothing);
    let journal = EmbeddedIngest::open_in(Arc::new(whole.clone()));
    let next = fill_and_settle(&journal, 1).await.expect("settled");
    let operations = whole.operations();
    journal.submit(&sent(1, next, &["x"])).await.expect("taken");
    assert!(length(&whole) < 1 << 20, "{} bytes", length(&whole));
    // Once more as long, after it was written anew.
    let next = fill_and_settle(&journal, next + 1).await.expect("settled");
    journal.submit(&sent(1, next, &["x"])).await.expect("taken");
    assert!(length(&whole) < 1 << 20, "{} bytes", length(&whole));
    let mut was_full = false;
    for at in operations - 6..operations {
        let disk = Disk::new(Plan::Fail(at, ErrorKind::StorageFull), Planted::Nothing);
        let journal = EmbeddedIngest::open_in(Arc::new(disk.clone()));
        let Some(error) = fill_and_settle(&journal, 1).await.err() else {
            continue;
        };
        // A sync that failed; and a log that is not long yet.
        if error.code() != semel_core::Code::StoreFull || length(&disk) < 32 << 20 {
            continue;
        }
        was_full = true;
        let billing = producer("billing-0a");
        let read = journal.accepted(&billing, "orders", 0, 1).await;
        let read = read.expect("an answer").expect("a stream");
        let done = settled(read.begun, read.next - 1);
        let done = journal.settle(&billing, "orders", done).await;
        done.expect("there is room again");
        let next = sent(1, read.next, &["x"]);
        journal.submit(&next).await.expect("taken");
        assert!(length(&disk) < 1 << 20, "{at}: {} bytes", length(&disk));
    }
    assert!(was_full);
}
