//! Outcomes of every size, and batches that hold many large ones.

use semel_core::{Admission, Outcome, Settled, Step, Store, Window};

use crate::lab::{Lab, record, report, request, take};

#[tokio::test]
async fn outcomes_of_every_size_come_back_byte_for_byte() {
    let lab = Lab::new();
    let store = lab.store().await;
    for (at, size) in [0, 1, 1 << 10, 3_000, 1 << 20, 20 << 20]
        .into_iter()
        .enumerate()
    {
        for (kind, outcome) in [("plain", plain(size)), ("random", random(size))] {
            let key = format!("{kind}-{at}");
            take(&store, &request(&key, 1)).await;
            complete(&store, &key, outcome.clone()).await;
            let answers = store
                .claim([request(&key, 2)].into())
                .await
                .expect("answers");
            let [
                Admission::Replay {
                    outcome: Some(found),
                    ..
                },
            ] = &answers[..]
            else {
                panic!("{key}: no replay");
            };
            assert!(*found == outcome, "{key} of {size} bytes");
            let kept = record(&store, &key).await.expect("a record").outcome;
            assert!(kept == Some(outcome), "{key} of {size} bytes");
            // A caller that does not want it does not have it sent.
            let mut unwanted = request(&key, 3);
            unwanted.wants_outcome = false;
            let answers = store.claim([unwanted].into()).await.expect("answers");
            assert!(matches!(
                answers[..],
                [Admission::Replay { outcome: None, .. }]
            ));
        }
    }
}

#[tokio::test]
async fn a_batch_of_large_outcomes_is_written_and_replayed_whole() {
    let lab = Lab::new();
    let store = lab.store().await;
    // More than goes into one statement: 9 times 20 MiB.
    let keys: Vec<String> = (0..9).map(|n| format!("key-{n}")).collect();
    let claims: Vec<_> = keys.iter().map(|key| request(key, 1)).collect();
    let answers = store.claim(claims.clone().into()).await.expect("answers");
    assert!(answers.iter().all(|it| matches!(it, Admission::Granted(_))));
    let reports: Vec<_> = keys
        .iter()
        .zip(0_u8..)
        .map(|(key, n)| {
            let mut bytes = vec![n; 20 << 20];
            bytes.push(n);
            let outcome = Outcome::raw(bytes.into(), usize::MAX);
            let step = Step::Complete {
                outcome,
                window: Window::DEFAULT,
            };
            report(key, 1, step)
        })
        .collect();
    let answers = store.settle(reports.into()).await.expect("answers");
    assert!(
        answers.iter().all(|it| matches!(it, Settled::Now(_))),
        "{answers:?}"
    );
    let claims: Vec<_> = keys.iter().map(|key| request(key, 2)).collect();
    let answers = store.claim(claims.into()).await.expect("answers");
    for ((key, n), answer) in keys.iter().zip(0_u8..).zip(answers) {
        let Admission::Replay {
            outcome: Some(Outcome::Kept { bytes, .. }),
            ..
        } = answer
        else {
            panic!("{key}: no replay");
        };
        assert_eq!(bytes.len(), (20 << 20) + 1);
        assert!(bytes.iter().all(|byte| *byte == n), "{key}");
    }
}

async fn complete(store: &impl Store, key: &str, outcome: Outcome) {
    let step = Step::Complete {
        outcome,
        window: Window::DEFAULT,
    };
    let settled = store
        .settle([report(key, 1, step)].into())
        .await
        .expect("an answer");
    assert!(matches!(settled[..], [Settled::Now(_)]), "{settled:?}");
}

fn plain(size: usize) -> Outcome {
    Outcome::raw(vec![b'a'; size].into(), usize::MAX)
}

/// Returns bytes that cannot be compressed, all values among them.
fn random(size: usize) -> Outcome {
    let mut state = 1_u64;
    let bytes = (0..size).map(|_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state.to_be_bytes()[0]
    });
    Outcome::raw(bytes.collect::<Vec<_>>().into(), usize::MAX)
}

#[tokio::test]
async fn a_page_with_a_filter_is_bounded() {
    let lab = Lab::new();
    semel_conformance::page_bounds::check(&lab.store().await).await;
}
