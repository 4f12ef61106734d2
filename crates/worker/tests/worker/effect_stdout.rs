//! Printing, and a reader that goes away.

use semel_engine::effect::{BatchEffect, Verdict};
use semel_worker::effect::StdoutEffect;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::call::call;

#[tokio::test]
async fn each_message_is_a_line() {
    let (reading, writing) = tokio::io::duplex(1_000);
    let mut effect = StdoutEffect::new(writing);
    let verdicts = effect.call(&[call("one"), call(""), call("two\r")]).await;
    assert!(
        verdicts
            .iter()
            .all(|verdict| *verdict == Verdict::Done("".into()))
    );
    assert_eq!(verdicts.len(), 3);
    assert!(effect.call(&[]).await.is_empty());
    let closed = effect.closed();
    drop(effect);
    let mut text = String::new();
    { reading }.read_to_string(&mut text).await.expect("text");
    assert_eq!(text, "one\n\ntwo\r\n");
    assert!(!closed.is_closed());
}

#[tokio::test]
async fn a_reader_that_has_gone_is_told_apart() {
    let (writing, reading) = pipe::pipe().expect("a pipe");
    let mut effect = StdoutEffect::new(writing);
    assert_eq!(
        effect.call(&[call("one")]).await,
        [Verdict::Done("".into())]
    );
    drop(reading);
    let error = || "closed pipe".into();
    for _ in 0..2 {
        assert_eq!(
            effect.call(&[call("two"), call("three")]).await,
            vec![
                Verdict::NotApplied {
                    error: error(),
                    retry_after: None
                };
                2
            ]
        );
        assert!(effect.closed().is_closed());
    }
}

#[tokio::test]
async fn what_a_reader_may_have_read_before_it_went_is_in_doubt() {
    let (writing, reading) = pipe::pipe().expect("a pipe");
    let mut effect = StdoutEffect::new(writing);
    let closed = effect.closed();
    // The first fills the pipe, so the reader goes in the middle of the second.
    let batch = [
        call(vec![b'x'; 65_000]),
        call(vec![b'y'; 65_000]),
        call(vec![b'z'; 65_000]),
    ];
    let printing = tokio::spawn(async move { effect.call(&batch).await });
    reading.readable().await.expect("readable");
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    drop(reading);
    let verdicts = printing.await.expect("printed");
    let error = || "closed pipe".into();
    assert_eq!(verdicts[0], Verdict::MaybeApplied { error: error() });
    assert_eq!(
        verdicts[1],
        Verdict::MaybeApplied { error: error() },
        "half of it was written"
    );
    assert_eq!(
        verdicts[2],
        Verdict::NotApplied {
            error: error(),
            retry_after: None
        }
    );
    assert!(closed.is_closed());
}
