//! Runs over the reference store, interrupted at every step.

mod world;

use std::path::Path;
use std::time::Duration;

use semel_core::{
    Code, ErrorKind, Outcome, Result, Settled, Settlement, StateKind, Step, Store, Window,
};
use semel_engine::effect::OnDoubt;
use semel_engine::summary::{Fate, Summary};

use super::{Dedup, Output};
use crate::effect::FileOutput;
use world::{Shown, Then, When, World, claim_of, dedup};

fn to_stream(shown: &Shown, on_doubt: OnDoubt) -> Output {
    Output::Stream {
        stream: Box::new(shown.clone()),
        on_doubt,
    }
}

fn repeat(shown: &Shown) -> Output {
    to_stream(shown, OnDoubt::Repeat)
}

fn park(shown: &Shown) -> Output {
    to_stream(shown, OnDoubt::Park)
}

fn to_file(path: &Path, is_append: bool) -> Output {
    Output::File {
        file: FileOutput::open(path).expect("an output file"),
        is_append,
    }
}

/// Asserts these fates and no others.
#[track_caller]
fn is(summary: Result<Summary>, expected: &[(Fate, u64)]) {
    let summary = summary.expect("a good end");
    for (fate, count) in expected {
        assert_eq!(summary.of(*fate), *count, "{fate:?} in {summary:?}");
    }
    let sum: u64 = expected.iter().map(|(_, count)| count).sum();
    assert_eq!(summary.deliveries(), sum, "{summary:?}");
}

const BOTH: [OnDoubt; 2] = [OnDoubt::Repeat, OnDoubt::Park];

#[tokio::test]
async fn first_lines_are_printed_in_order_and_byte_for_byte() {
    let input = b"b\r\n\na\n\0\xFF\nb\r\nb\n\na\n\0\xFF\nlast\nlast";
    let once = b"b\r\n\na\n\0\xFF\nb\nlast\n";
    for on_doubt in BOTH {
        for at_once in [true, false] {
            let (world, shown) = (World::new(), Shown::default());
            let output = to_stream(&shown, on_doubt);
            let summary = if at_once {
                world.run_at_once(dedup("line"), input, output).await
            } else {
                world.run("line", input, output).await
            };
            is(summary, &[(Fate::Applied, 6), (Fate::Replayed, 5)]);
            assert_eq!(shown.bytes(), once, "{on_doubt:?}, {at_once}");
        }
    }
}

#[tokio::test]
async fn a_last_line_stays_as_it_came_but_ends_with_lf_in_a_file() {
    for on_doubt in BOTH {
        let (world, shown) = (World::new(), Shown::default());
        let output = to_stream(&shown, on_doubt);
        is(
            world.run_at_once(dedup("line"), "a\nb", output).await,
            &[(Fate::Applied, 2)],
        );
        assert_eq!(shown.text(), "a\nb");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let world = World::new();
    for (input, fates) in [
        ("a\nb", [(Fate::Applied, 2), (Fate::Replayed, 0)]),
        ("b\nc\na", [(Fate::Applied, 1), (Fate::Replayed, 2)]),
    ] {
        let summary = world.run_at_once(dedup("line"), input, to_file(&path, false));
        is(summary.await, &fates);
    }
    assert_eq!(std::fs::read(&path).expect("a file"), b"a\nb\nc\n");
}

#[tokio::test]
async fn an_empty_input_is_no_line() {
    let (world, shown) = (World::new(), Shown::default());
    is(
        world.run_at_once(dedup("line"), "", repeat(&shown)).await,
        &[],
    );
    assert_eq!(shown.text(), "");
}

#[tokio::test]
async fn a_file_is_exact_whatever_is_lost_at_whichever_step() {
    let input = b"a\nb\na\nc\nb\nd";
    for when in [When::Before, When::Between, When::Refused, When::After] {
        for calls in 0..7 {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("out");
            let world = World::new();
            world.failing.fail(calls, when);
            let broken = world.run("line", input, to_file(&path, false)).await;
            assert_eq!(broken.is_err(), calls < 6, "{when:?} {calls}");
            world.failing.never_fail();
            let summary = world.run("line", input, to_file(&path, false)).await;
            assert_eq!(summary.expect("a good end").deliveries(), 6);
            let text = std::fs::read_to_string(&path).expect("a file");
            assert_eq!(text, "a\nb\nc\nd\n", "{when:?} {calls}");
        }
    }
}

#[tokio::test]
async fn only_what_is_surely_not_recorded_is_cut_off_at_once() {
    for (when, left) in [(When::Refused, "a\n"), (When::Between, "a\nb\n")] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let world = World::new();
        world.failing.fail(1, when);
        let broken = world.run("line", b"a\nb\n", to_file(&path, false)).await;
        broken.expect_err("a failure");
        let text = || std::fs::read_to_string(&path).expect("a file");
        assert_eq!(text(), left, "{when:?}");
        world.failing.never_fail();
        is(world.run("line", b"", to_file(&path, false)).await, &[]);
        assert_eq!(text(), "a\n", "{when:?}");
    }
}

#[tokio::test]
async fn a_file_that_the_store_knows_nothing_of_is_refused_or_appended_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    std::fs::write(&path, "mine\n").expect("a file");
    let world = World::new();
    let refused = world.run("line", b"a\n", to_file(&path, false)).await;
    assert_eq!(
        refused.expect_err("a refusal").kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(std::fs::read(&path).expect("a file"), b"mine\n");
    // Existing contents stay, whatever happens to the first line behind them.
    world.failing.fail(0, When::Between);
    let broken = world.run("line", b"a\n", to_file(&path, true)).await;
    broken.expect_err("a failure");
    world.failing.never_fail();
    for is_append in [false, true] {
        let summary = world.run("line", b"a\n", to_file(&path, is_append)).await;
        summary.expect("a good end");
        assert_eq!(std::fs::read(&path).expect("a file"), b"mine\na\n");
    }
    std::fs::write(&path, "m").expect("a file");
    let refused = world.run("line", b"a\n", to_file(&path, true)).await;
    assert_eq!(
        refused.expect_err("a refusal").code(),
        Code::TargetShortened
    );
}

#[tokio::test]
async fn a_stream_repeats_the_last_batch_and_loses_none() {
    let input = b"a\nb\na\nc\n";
    for when in [When::Before, When::Between, When::After] {
        for calls in 0..4 {
            let (world, first, second) = (World::new(), Shown::default(), Shown::default());
            world.failing.fail(calls, when);
            let broken = world.run("line", input, repeat(&first)).await;
            broken.expect_err("a failure");
            world.failing.never_fail();
            let summary = world.run("line", input, repeat(&second)).await;
            summary.expect("a good end");
            let (first, second) = (first.text(), second.text());
            // A batch of duplicates alone makes no call that could fail.
            let is_repeated = when == When::Between;
            let both: Vec<_> = first.lines().chain(second.lines()).collect();
            let mut once = both.clone();
            once.dedup();
            assert_eq!(once, ["a", "b", "c"], "{when:?} {calls}");
            assert_eq!(
                both.len(),
                3 + usize::from(is_repeated),
                "{when:?} {calls}: {first:?} {second:?}"
            );
        }
    }
}

#[tokio::test]
async fn what_a_closed_pipe_did_not_take_is_not_recorded_as_done() {
    let (world, first, second) = (World::new(), Shown::until(3, Then::Close), Shown::default());
    let summary = world.run("line", b"a\na\nbb\nc\n", repeat(&first)).await;
    is(
        summary,
        &[(Fate::Applied, 1), (Fate::Replayed, 1), (Fate::Released, 1)],
    );
    assert_eq!(first.text(), "a\nb");
    let summary = world.run("line", b"a\na\nbb\nc\n", repeat(&second)).await;
    is(summary, &[(Fate::Applied, 2), (Fate::Replayed, 2)]);
    assert_eq!(second.text(), "bb\nc\n");
}

#[tokio::test]
async fn a_stream_that_takes_nothing_more_is_a_failure() {
    for on_doubt in BOTH {
        let (world, first, second) = (World::new(), Shown::until(2, Then::Fill), Shown::default());
        let broken = world
            .run("line", b"a\nb\n", to_stream(&first, on_doubt))
            .await;
        let error = broken.expect_err("a failure");
        assert_eq!(error.code(), Code::TargetUnavailable);
        assert_eq!(error.to_string(), "cannot print: no space left on the disk");
        let summary = world
            .run("line", b"a\nb\n", to_stream(&second, on_doubt))
            .await;
        is(summary, &[(Fate::Applied, 1), (Fate::Replayed, 1)]);
        assert_eq!(second.text(), "b\n");
    }
}

#[tokio::test]
async fn a_reader_who_does_not_read_holds_up_no_shutdown() {
    for on_doubt in BOTH {
        let (world, first, second) = (World::new(), Shown::until(3, Then::Block), Shown::default());
        let stop = world.stop.clone();
        let asked = async {
            while first.bytes().len() < 3 {
                tokio::task::yield_now().await;
            }
            stop.send_replace(true);
        };
        let run = world.run("line", b"a\nbb\nc\n", to_stream(&first, on_doubt));
        let summary = if on_doubt == OnDoubt::Park {
            tokio::join!(run, asked).0
        } else {
            // The memory store decides on the calling thread, so another thread has to ask for the stop.
            let asking = std::thread::spawn({
                let (first, stop) = (first.clone(), stop.clone());
                move || {
                    while first.bytes().len() < 3 {
                        std::thread::yield_now();
                    }
                    stop.send_replace(true);
                }
            });
            let summary = run.await;
            asking.join().expect("a thread");
            summary
        };
        let summary = summary.expect("a good end");
        assert_eq!(summary.of(Fate::Applied), 1, "{summary:?}");
        world.stop.send_replace(false);
        let summary = world
            .run("line", b"a\nbb\nc\n", to_stream(&second, on_doubt))
            .await;
        let summary = summary.expect("a good end");
        match on_doubt {
            // Half of it may have been read.
            OnDoubt::Park => {
                assert_eq!(second.text(), "c\n");
                assert_eq!(summary.of(Fate::InDoubt), 1, "{summary:?}");
            }
            OnDoubt::Repeat => assert_eq!(second.text(), "bb\nc\n"),
        }
    }
}

#[tokio::test]
async fn lines_that_may_have_been_printed_are_listed_and_not_printed_again() {
    let (world, first, second) = (World::new(), Shown::until(5, Then::Close), Shown::default());
    // One batch, whose second line is interrupted and whose third never begins.
    let input = "a\nbbb\na\nc\nbbb\n";
    let summary = world.run_at_once(dedup("line"), input, park(&first)).await;
    is(summary, &[(Fate::InDoubt, 4), (Fate::Released, 1)]);
    assert_eq!(first.text(), "a\nbbb");
    let listed = [("in:1", "a"), ("in:2", "bbb")].map(|(place, line)| {
        (
            place.to_owned(),
            "in-doubt".to_owned(),
            line.as_bytes().to_vec(),
        )
    });
    assert_eq!(world.parked().await, listed);
    let summary = world.run_at_once(dedup("line"), input, park(&second)).await;
    is(summary, &[(Fate::Applied, 1), (Fate::InDoubt, 4)]);
    assert_eq!(second.text(), "c\n");
    assert_eq!(
        world.parked().await,
        listed,
        "once, however often they are met"
    );
}

#[tokio::test]
async fn a_run_that_vanishes_while_it_prints_leaves_its_batch_in_doubt() {
    let (world, first, second) = (World::new(), Shown::until(1, Then::Block), Shown::default());
    let vanished = async {
        while first.bytes().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = world.run("line", b"a\nb\n", park(&first)) => panic!("it ended: {ended:?}"),
        () = vanished => {}
    }
    world
        .clock
        .turn(super::park::LEASE + Duration::from_millis(1));
    let summary = world.run("line", b"a\nb\na\n", park(&second)).await;
    // The thread that waits for the first reader would hold up the end of the test.
    world.stop.send_replace(true);
    is(summary, &[(Fate::Applied, 1), (Fate::InDoubt, 2)]);
    assert_eq!(second.text(), "b\n");
    assert_eq!(world.parked().await.len(), 1);
}

#[tokio::test]
async fn a_key_that_somebody_is_at_is_waited_for_and_lines_stay_in_order() {
    for on_doubt in BOTH {
        for is_done in [true, false] {
            let (world, shown) = (World::new(), Shown::default());
            let request = claim_of("b");
            let claimed = world.store.claim([request.clone()].into()).await;
            assert_eq!(claimed.expect("a claim").len(), 1);
            let step = if is_done {
                Step::Complete {
                    outcome: Outcome::empty(),
                    window: Window::DEFAULT,
                }
            } else {
                Step::Release {
                    error: "not now".into(),
                    certainty: semel_core::Certainty::NotApplied,
                    after: Duration::ZERO,
                    counted: false,
                    limits: semel_core::AttemptLimits::default(),
                    window: Window::DEFAULT,
                }
            };
            let settlement = Settlement {
                operation: request.operation.clone(),
                claim_id: request.claim_id,
                step,
            };
            let others = async {
                // By then the run has met the key, if it does not wait for it.
                tokio::time::sleep(Duration::from_millis(20)).await;
                assert!(!shown.text().contains('c'), "out of order");
                let settled = world
                    .store
                    .settle([settlement].into())
                    .await
                    .expect("settled");
                assert!(matches!(settled[0], Settled::Now(_)), "{settled:?}");
            };
            let output = to_stream(&shown, on_doubt);
            let run = world.run_at_once(dedup("line"), "a\nb\nc\nb\n", output);
            let (summary, ()) = tokio::join!(run, others);
            if is_done {
                is(summary, &[(Fate::Applied, 2), (Fate::Replayed, 2)]);
                assert_eq!(shown.text(), "a\nc\n");
            } else {
                is(summary, &[(Fate::Applied, 3), (Fate::Replayed, 1)]);
                assert_eq!(shown.text(), "a\nb\nc\n");
            }
        }
    }
}

#[tokio::test]
async fn lines_without_a_usable_key_are_kept_where_they_were_found() {
    let input =
        "\u{FEFF}{\"id\":1}\nno json\n{\"id\":\"1\"}\n\n{\"id\":1.0}\n{\"id\":null}\n{\"id\":1}";
    for on_doubt in BOTH {
        let (world, shown) = (World::new(), Shown::default());
        for applied in [2, 0] {
            let output = to_stream(&shown, on_doubt);
            let summary = world.run_at_once(dedup("json:/id"), input, output).await;
            is(
                summary,
                &[
                    (Fate::Applied, applied),
                    (Fate::Replayed, 4 - applied),
                    (Fate::Quarantined, 3),
                ],
            );
            let kept = world.parked().await;
            let kept: Vec<_> = kept
                .iter()
                .map(|(place, reason, line)| (place.as_str(), reason.as_str(), line.as_slice()))
                .collect();
            assert_eq!(
                kept,
                [
                    ("in:2", "not-json", &b"no json"[..]),
                    ("in:4", "not-json", b""),
                    ("in:6", "key-null", b"{\"id\":null}"),
                ]
            );
        }
        assert_eq!(shown.text(), "\u{FEFF}{\"id\":1}\n{\"id\":\"1\"}\n");
    }
}

#[tokio::test]
async fn keys_are_found_where_the_selectors_say() {
    let input = "a\tx\nb\tx\na\ty\nnothing\n";
    for (key, once, kept) in [
        ("line", input, 0),
        ("hash", input, 0),
        ("coordinates", input, 0),
        ("field:1", "a\tx\nb\tx\nnothing\n", 0),
        ("field:2", "a\tx\na\ty\n", 1),
    ] {
        let (world, shown) = (World::new(), Shown::default());
        let summary = world.run_at_once(dedup(key), input, repeat(&shown)).await;
        let summary = summary.expect("a good end");
        assert_eq!(shown.text(), once, "{key}");
        assert_eq!(summary.of(Fate::Quarantined), kept, "{key}");
    }
    let (world, shown) = (World::new(), Shown::default());
    let both = ["field:1", "field:2"].map(|field| field.parse().expect("a selector"));
    let joined = Dedup {
        key: Vec::from(both).try_into().expect("selectors"),
        ..dedup("line")
    };
    let input = "a\tx\t1\na\tx\t2\nx\ta\t3\n";
    let summary = world.run_at_once(joined, input, repeat(&shown)).await;
    is(summary, &[(Fate::Applied, 2), (Fate::Replayed, 1)]);
    assert_eq!(shown.text(), "a\tx\t1\nx\ta\t3\n");
}

#[tokio::test]
async fn a_line_that_is_too_long_is_quarantined_with_its_beginning() {
    let long = "x".repeat(200_000);
    let (world, shown) = (World::new(), Shown::default());
    let mut short = dedup("line");
    short.max_line_bytes = 100_000;
    let input = format!("a\n{long}\nb\n");
    let summary = world.run_at_once(short, input, repeat(&shown)).await;
    is(summary, &[(Fate::Applied, 2), (Fate::Quarantined, 1)]);
    assert_eq!(shown.text(), "a\nb\n");
    let kept = world.parked().await;
    let (place, reason, head) = &kept[0];
    assert_eq!(
        (place.as_str(), reason.as_str()),
        ("in:2", "message-too-large")
    );
    assert_eq!(head.as_slice(), &long.as_bytes()[..64 << 10]);
}

#[tokio::test]
async fn a_line_is_new_again_after_its_window() {
    let (world, shown) = (World::new(), Shown::default());
    world
        .run("line", b"a\n", repeat(&shown))
        .await
        .expect("a good end");
    world.clock.turn(Duration::from_secs(800));
    world
        .run("line", b"a\n", repeat(&shown))
        .await
        .expect("a good end");
    assert_eq!(shown.text(), "a\n", "not before it must be forgotten");
    world.clock.turn(Duration::from_secs(101));
    world
        .run("line", b"a\n", repeat(&shown))
        .await
        .expect("a good end");
    assert_eq!(shown.text(), "a\na\n");
}

#[tokio::test]
async fn a_key_that_was_given_up_is_kept_as_a_dead_letter() {
    for on_doubt in BOTH {
        let (world, shown) = (World::new(), Shown::default());
        let request = claim_of("b");
        let claimed = world.store.claim([request.clone()].into()).await;
        assert_eq!(claimed.expect("a claim").len(), 1);
        let settlement = Settlement {
            operation: request.operation,
            claim_id: request.claim_id,
            step: Step::Fail {
                decisive: false,
                error: "never".into(),
                window: Window::DEFAULT,
            },
        };
        let settled = world
            .store
            .settle([settlement].into())
            .await
            .expect("settled");
        assert!(matches!(settled[..], [Settled::Now(StateKind::Dead)]));
        let output = to_stream(&shown, on_doubt);
        let summary = world.run_at_once(dedup("line"), "a\nb\n", output).await;
        is(summary, &[(Fate::Applied, 1), (Fate::Dead, 1)]);
        let kept = world.parked().await;
        assert_eq!(kept, [("in:2".into(), "dead".into(), b"b".to_vec())]);
    }
}

#[tokio::test]
async fn many_lines_are_cut_into_batches_in_order() {
    let lines = |count: u32| {
        let lines = (0..count).map(|id| (id % 40_000).to_string());
        lines.fold(String::new(), |text, line| text + &line + "\n")
    };
    let (lines, once) = (lines(60_000), lines(40_000));
    for on_doubt in BOTH {
        let (world, shown) = (World::new(), Shown::default());
        let output = to_stream(&shown, on_doubt);
        let summary = world
            .run_at_once(dedup("line"), lines.clone(), output)
            .await;
        is(
            summary,
            &[(Fate::Applied, 40_000), (Fate::Replayed, 20_000)],
        );
        assert!(shown.text() == once, "{on_doubt:?}");
    }
}
