//! The child that is kept: answers in any order, and every way to break the protocol.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::{Certainty, Code};
use semel_engine::effect::{Effect, Verdict};
use semel_worker::effect::JsonlEffect;
use semel_worker::effect::jsonl::Settings;

use crate::call::call;

fn effect(command: &[&str], timeout: Duration) -> Arc<JsonlEffect> {
    let mut settings = Settings::new(command.iter().map(|part| (*part).to_owned()).collect());
    settings.timeout = timeout;
    Arc::new(JsonlEffect::new(settings).expect("an effect"))
}

/// A child in Python: `body` is run for each `request`, and may `answer(request, **members)`.
fn python(body: &str) -> Arc<JsonlEffect> {
    python_within(body, Duration::from_secs(20))
}

fn python_within(body: &str, timeout: Duration) -> Arc<JsonlEffect> {
    let body = body.replace('\n', "\n    ");
    let script = format!(
        "import sys, json, os, time, signal\n\
         kept = []\n\
         def answer(request, **members):\n    \
             print(json.dumps(dict(id=request['id'], **members)), flush=True)\n\
         for line in sys.stdin:\n    \
             request = json.loads(line)\n    {body}\n"
    );
    effect(&["python3", "-u", "-c", &script], timeout)
}

/// Calls that run at once, in order of their payload.
async fn call_all(effect: &Arc<JsonlEffect>, payloads: &[&'static str]) -> Vec<Verdict> {
    let mut calls = Vec::new();
    for &payload in payloads {
        let effect = Arc::clone(effect);
        calls.push(tokio::spawn(
            async move { effect.call(call(payload)).await },
        ));
        // One after the other into the queue.
        tokio::task::yield_now().await;
    }
    let mut verdicts = Vec::new();
    for call in calls {
        verdicts.push(call.await.expect("called"));
    }
    verdicts
}

fn done(result: &'static str) -> Verdict {
    Verdict::Done(Bytes::from_static(result.as_bytes()))
}

fn maybe_because(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::MaybeApplied { error }
        | Verdict::Broken {
            error,
            certainty: Certainty::MaybeApplied,
        } => error,
        other => panic!("maybe applied, not {other:?}"),
    }
}

#[tokio::test]
async fn answers_come_in_any_order() {
    let effect = python(
        "kept.append(request)\n\
         if len(kept) == 3:\n    \
             for request in reversed(kept): answer(request, status='done', result=request['payload'])",
    );
    let verdicts = call_all(&effect, &["{\"n\": 1}", "[2]", "\"3\""]).await;
    assert_eq!(verdicts, [done("{\"n\":1}"), done("[2]"), done("\"3\"")]);
}

#[tokio::test]
async fn a_request_tells_all_there_is() {
    let effect = python(
        "request.pop('id'); answer(dict(id=1), status='done', result=sorted(request.items()))",
    );
    let call = call(vec![0xFF, b'\n']);
    let id = call.idempotency_key();
    let expected = format!(
        r#"[["attempt",2],["coordinates","in.ndjson:1"],["fencing_token",7],["idempotency_key","{id}"],["key","pay-1"],["operation","payments"],["operation_id","{id}"],["payload_base64","/wo="]]"#
    );
    assert_eq!(effect.call(call).await, Verdict::Done(expected.into()));
}

#[tokio::test]
async fn a_status_is_a_verdict() {
    let effect = python("answer(request, **request['payload'])");
    let verdicts = call_all(
        &effect,
        &[
            r#"{"status":"retry","error":"full","retry_after":"5s"}"#,
            r#"{"status":"dead","error":"no such account"}"#,
            r#"{"status":"unknown"}"#,
        ],
    )
    .await;
    assert_eq!(
        verdicts,
        [
            Verdict::NotApplied {
                error: "full".into(),
                retry_after: Some(Duration::from_secs(5))
            },
            Verdict::Dead {
                decisive: false,
                error: "no such account".into()
            },
            Verdict::MaybeApplied {
                error: "no reason given".into()
            },
        ]
    );
}

#[tokio::test]
async fn a_child_that_breaks_the_protocol_is_replaced() {
    for (fault, told) in [
        ("print('debug', flush=True)", "that is no JSON"),
        ("print('', flush=True)", "that is no JSON"),
        (
            "answer(dict(id=99), status='done')",
            "a request that it does not have",
        ),
        ("answer(request, status='fine')", "whose status is none of"),
        (
            "sys.stdout.write('x' * (9 << 20)); sys.stdout.flush()",
            "of over",
        ),
    ] {
        let effect = python(&format!(
            "if request['payload'] == 'break':\n    {fault}\n    time.sleep(60)\n\
             if request['payload'] != 'silence': answer(request, status='done', result=os.getpid())"
        ));
        let before = effect.call(call("\"ok\"")).await;
        let verdicts = call_all(&effect, &["\"silence\"", "\"break\""]).await;
        for verdict in &verdicts {
            let error = maybe_because(verdict);
            assert!(
                error.contains(told) && error.ends_with("; killed"),
                "{error}"
            );
        }
        let after = effect.call(call("\"ok\"")).await;
        assert!(matches!(after, Verdict::Done(_)), "{after:?}");
        assert_ne!(before, after, "another process");
    }
}

#[tokio::test]
async fn an_answer_twice_is_a_fault() {
    let effect =
        python("answer(request, status='done'); answer(request, status='done'); time.sleep(60)");
    assert_eq!(effect.call(call("1")).await, done(""));
    // The second answer belongs to nothing, and the child is replaced: before or after this call.
    match effect.call(call("1")).await {
        Verdict::Done(_) | Verdict::DoneUnkept { .. } => {}
        Verdict::NotApplied { error, .. }
        | Verdict::MaybeApplied { error }
        | Verdict::Away { error }
        | Verdict::Broken { error, .. } => {
            assert!(error.contains("a request that it does not have"), "{error}");
        }
        Verdict::Dead { error, .. } => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_child_that_ends_leaves_doubt_about_what_it_read() {
    for (ending, told) in [
        ("sys.exit(3)", "the child is gone: exit code 3"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "the child is gone: killed by signal 9",
        ),
        (
            "sys.stdout.close(); os.close(1); time.sleep(60)",
            "closed its standard input or output; killed",
        ),
    ] {
        let effect = python(&format!(
            "if request['payload'] == 'end': {ending}\nelse: answer(request, status='done')"
        ));
        let verdict = effect.call(call("\"end\"")).await;
        assert!(maybe_because(&verdict).contains(told), "{verdict:?}");
        assert_eq!(
            effect.call(call("\"go on\"")).await,
            done(""),
            "a new child"
        );
    }
}

#[tokio::test]
async fn an_answer_that_was_given_before_the_end_counts() {
    let effect = python(
        "kept.append(request)\n\
         if len(kept) == 2:\n    answer(kept[0], status='done', result=1)\n    sys.exit(1)",
    );
    let verdicts = call_all(&effect, &["1", "2"]).await;
    assert_eq!(verdicts[0], done("1"));
    assert!(maybe_because(&verdicts[1]).contains("exit code 1"));
}

#[tokio::test]
async fn what_was_not_written_fully_was_not_applied() {
    // It reads one line, and then nothing: the pipe is full before the second one ends.
    let effect = effect(
        &[
            "python3",
            "-c",
            "import os,time\nwhile os.read(0,1)!=b'\\n': pass\ntime.sleep(1)",
        ],
        Duration::from_secs(20),
    );
    let large: &'static str = String::leak(format!("\"{}\"", "x".repeat(300_000)));
    let verdicts = call_all(&effect, &["1", large]).await;
    assert!(
        maybe_because(&verdicts[0]).contains("exit code 0"),
        "{verdicts:?}"
    );
    assert_eq!(verdicts[1], unseen("the child is gone: exit code 0"));
}

#[tokio::test]
async fn a_late_answer_is_ignored() {
    let effect = python_within(
        "if request['payload'] == 'slow':\n    kept.append(request)\nelse:\n    \
             for late in kept: answer(late, status='dead', error='late')\n    \
             kept.clear(); answer(request, status='done')",
        Duration::from_secs(3),
    );
    assert_eq!(effect.call(call("1")).await, done(""), "it has started");
    let verdict = effect.call(call("\"slow\"")).await;
    assert_eq!(maybe_because(&verdict), "no answer within 3s");
    assert_eq!(effect.call(call("2")).await, done(""));
    assert_eq!(
        effect.call(call("3")).await,
        done(""),
        "the same child goes on"
    );
}

#[tokio::test]
async fn a_child_that_cannot_be_started_applied_nothing() {
    let effect = effect(&["/nonexistent/worker"], Duration::from_secs(5));
    let Verdict::Away { error } = effect.call(call("1")).await else {
        panic!("it never ran")
    };
    assert_eq!(
        &*error,
        "cannot start /nonexistent/worker: there is no such file"
    );
    assert_eq!(
        effect.check().expect_err("found").code(),
        Code::TargetUnavailable
    );
    assert_eq!(
        JsonlEffect::new(Settings::new(vec![]))
            .expect_err("refused")
            .code(),
        Code::InvalidConfig
    );
}

#[tokio::test]
async fn what_a_child_never_read_was_not_applied() {
    // It ends at once, and the requests lie in the pipe.
    let effect = effect(&["false"], Duration::from_secs(20));
    for verdict in call_all(&effect, &["1", "2"]).await {
        assert_eq!(verdict, unseen("the child is gone: exit code 1"));
    }
    let verdict = effect.call(call("3")).await;
    assert_eq!(verdict, unseen("the child is gone: exit code 1"));
}

/// Broken, and this message was surely not seen.
fn unseen(error: &str) -> Verdict {
    Verdict::Broken {
        error: error.into(),
        certainty: Certainty::NotApplied,
    }
}

#[tokio::test]
async fn a_child_that_ends_before_its_first_answer_is_broken_and_its_last_lines_are_told() {
    let effect = effect(
        &[
            "sh",
            "-c",
            "echo 1 >&2; echo 2 >&2; echo '' >&2; echo 3 >&2; echo no module >&2; exit 1",
        ],
        Duration::from_secs(20),
    );
    for verdict in call_all(&effect, &["1", "2", "3"]).await {
        let told = "the child is gone: exit code 1; it said: 2 / 3 / no module";
        assert_eq!(verdict, unseen(told));
    }
    let seen = python("sys.exit(1)").call(call("1")).await;
    let Verdict::Broken {
        certainty: Certainty::MaybeApplied,
        ..
    } = seen
    else {
        panic!("it was read, and not {seen:?}")
    };
}

#[tokio::test]
async fn a_child_that_does_not_read_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let script = format!("echo started >> {}; exec sleep 60", log.display());
    let effect = effect(&["sh", "-c", &script], Duration::from_millis(300));
    let starts = || {
        std::fs::read_to_string(&log)
            .unwrap_or_default()
            .lines()
            .count()
    };
    for _ in 0..50 {
        let _ = effect.call(call(vec![b'x'; 2 << 20])).await;
        if starts() == 2 {
            return;
        }
    }
    panic!("{} started", starts());
}

#[tokio::test]
async fn what_waits_too_long_for_a_child_was_not_applied() {
    // It answers once and reads no more, and a message that its pipe cannot hold is before the next one.
    let effect = python_within(
        "answer(request, status='done'); time.sleep(60)",
        Duration::from_secs(2),
    );
    assert_eq!(effect.call(call("1")).await, done(""), "it has started");
    let before = Arc::clone(&effect);
    let before = tokio::spawn(async move { before.call(call(vec![b'x'; 2 << 20])).await });
    // Until it is taken to be written.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let verdict = effect.call(call("3")).await;
    let expected = Verdict::NotApplied {
        error: "no answer within 2s".into(),
        retry_after: None,
    };
    assert_eq!(verdict, expected, "its line was not taken");
    let before = before.await.expect("called");
    assert_eq!(maybe_because(&before), "no answer within 2s");
}

#[tokio::test]
async fn a_child_that_works_one_by_one_has_the_time_limit_for_each() {
    let effect = python_within(
        "time.sleep(0.6); answer(request, status='done')",
        Duration::from_secs(4),
    );
    let verdicts = call_all(&effect, &["1", "2", "3", "4", "5", "6", "7", "8"]).await;
    assert_eq!(verdicts, vec![done(""); 8]);
}

#[tokio::test]
async fn a_request_that_others_overtake_is_late_all_the_same() {
    let effect = python_within(
        "if request['payload'] != 1: time.sleep(0.1); answer(request, status='done')",
        Duration::from_secs(1),
    );
    let stuck = Arc::clone(&effect);
    let stuck = tokio::spawn(async move { stuck.call(call("1")).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = tokio::time::Instant::now();
    while !stuck.is_finished() && before.elapsed() < Duration::from_secs(5) {
        assert_eq!(effect.call(call("2")).await, done(""));
    }
    assert!(stuck.is_finished(), "those after it say nothing about it");
    let verdict = stuck.await.expect("called");
    assert!(maybe_because(&verdict).contains("no answer within"));
}

#[tokio::test]
async fn closing_lets_the_child_end_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("ended");
    let script = format!(
        "import sys, json\nfor line in sys.stdin: print(json.dumps(dict(id=json.loads(line)['id'], status='done')), flush=True)\nopen({mark:?}, 'w')"
    );
    let effect = effect(&["python3", "-c", &script], Duration::from_secs(20));
    assert_eq!(effect.call(call("1")).await, done(""));
    assert!(!mark.exists());
    effect.close().await;
    assert!(mark.exists(), "it saw the end of its input");
    let verdict = effect.call(call("2")).await;
    assert_eq!(
        verdict,
        Verdict::NotApplied {
            error: "the effect was closed".into(),
            retry_after: None
        }
    );
    effect.close().await;
}

#[tokio::test]
async fn closing_takes_the_answers_that_still_come_and_kills_what_does_not_end() {
    let effect = python(
        "if request['payload'] == 2:\n    signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)\n\
         time.sleep(0.3); answer(request, status='done')",
    );
    let running = Arc::clone(&effect);
    let calls = tokio::spawn(async move { call_all(&running, &["1", "2"]).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = tokio::time::Instant::now();
    effect.close().await;
    assert!(
        before.elapsed() < Duration::from_secs(8),
        "five at the most"
    );
    let verdicts = calls.await.expect("called");
    assert_eq!(verdicts[0], done(""));
    assert!(
        maybe_because(&verdicts[1]).contains("did not end in time; killed"),
        "{verdicts:?}"
    );
}

#[tokio::test]
async fn closing_kills_a_child_at_once_if_nobody_waits_for_its_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let effect = python(&format!(
        "open({log:?}, 'a').write('x')\ntime.sleep(0.3)\nanswer(request, status='done')"
    ));
    let running = Arc::clone(&effect);
    let calls =
        tokio::spawn(async move { tokio::join!(running.call(call("1")), running.call(call("2"))) });
    let effects = || std::fs::read(&log).unwrap_or_default().len();
    for _ in 0..500 {
        if effects() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    calls.abort();
    assert!(calls.await.expect_err("aborted").is_cancelled());
    effect.close().await;
    assert_eq!(effects(), 1, "what was given up is not begun any more");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(effects(), 1, "nor after the end");
}

#[tokio::test]
async fn a_child_that_is_never_closed_dies_with_its_effect() {
    let effect = python("answer(request, status='done', result=os.getpid())");
    let Verdict::Done(pid) = effect.call(call("1")).await else {
        panic!("answered")
    };
    drop(effect);
    let stat = format!("/proc/{}/stat", String::from_utf8_lossy(&pid));
    for _ in 0..100 {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it lives on");
}

#[tokio::test]
async fn many_calls_are_in_flight_at_once() {
    let effect = python("answer(request, status='done', result=request['payload'])");
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..3_000_u32 {
        let effect = Arc::clone(&effect);
        calls.spawn(async move {
            let verdict = effect.call(call(number.to_string())).await;
            assert_eq!(verdict, Verdict::Done(number.to_string().into()));
        });
    }
    while let Some(called) = calls.join_next().await {
        called.expect("answered with its own");
    }
}
