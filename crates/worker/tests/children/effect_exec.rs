//! Commands, and the report of each of their ends.

use std::time::Duration;

use semel_core::outcome::Gathering;
use semel_core::{Code, Key};
use semel_engine::effect::{Call, Effect, Verdict};
use semel_worker::effect::ExecEffect;
use semel_worker::effect::exec::Settings;

use crate::call::call;

fn effect(command: &[&str]) -> ExecEffect {
    let command = command.iter().map(|part| (*part).to_owned()).collect();
    ExecEffect::new(Settings::new(command)).expect("an effect")
}

fn sh(script: &str) -> ExecEffect {
    effect(&["sh", "-c", script])
}

fn hasty(script: &str) -> ExecEffect {
    let mut settings = Settings::new(["sh", "-c", script].map(String::from).into());
    settings.timeout = Duration::from_millis(300);
    ExecEffect::new(settings).expect("an effect")
}

fn keyed(key: &str, payload: &'static str) -> Call {
    let mut call = call(payload);
    call.claim.operation.key = Key::parse(key).expect("a key");
    call
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    // A process that has ended and was not waited for yet is `Z`.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

async fn dies(pid: &str) -> bool {
    for _ in 0..100 {
        if !is_alive(pid) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test]
async fn what_it_prints_is_the_outcome() {
    let message: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    assert_eq!(
        effect(&["cat"]).call(call(message.clone())).await,
        Verdict::Done(message.into())
    );
    assert_eq!(
        effect(&["true"]).call(call("x")).await,
        Verdict::Done("".into())
    );
    let noisy = sh("echo noise >&2; printf out");
    assert_eq!(noisy.call(call("x")).await, Verdict::Done("out".into()));
}

#[tokio::test]
async fn the_environment_tells_which_call_it_is() {
    let script = "printf '%s|' \"$SEMEL_KEY\" \"$SEMEL_OPERATION\" \"$SEMEL_ATTEMPT\" \
                  \"$SEMEL_FENCING_TOKEN\" \"$SEMEL_IDEMPOTENCY_KEY\" \"$SEMEL_OPERATION_ID\"";
    let call = keyed("ö k\n1", "x");
    let id = call.idempotency_key();
    let expected = format!("ö k\n1|payments|2|7|{id}|{id}|");
    assert_eq!(sh(script).call(call).await, Verdict::Done(expected.into()));
    let Verdict::Dead { error, .. } = effect(&["true"]).call(keyed("a\0b", "x")).await else {
        panic!("no environment can carry that")
    };
    assert!(error.contains("NUL"), "{error}");
}

#[tokio::test]
async fn the_environment_tells_the_trace_of_the_message_and_no_other() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let script = "printf '%s|%s' \"$TRACEPARENT\" \"$TRACESTATE\"";
    let mut call = call("x");
    assert_eq!(
        sh(script).call(call.clone()).await,
        Verdict::Done("|".into())
    );
    call.headers = vec![
        ("Traceparent".into(), parent.into()),
        ("tracestate".into(), "a=1".into()),
    ];
    let expected = format!("{parent}|a=1");
    assert_eq!(
        sh(script).call(call.clone()).await,
        Verdict::Done(expected.into())
    );
    // No environment can carry it, and no trace looks like that.
    call.headers[0].1 = "00-\0".into();
    assert_eq!(sh(script).call(call).await, Verdict::Done("|".into()));
}

#[tokio::test]
async fn exit_codes_tell_what_to_do() {
    let not_applied = |error: &str| Verdict::NotApplied {
        error: error.into(),
        retry_after: None,
    };
    let dead = |error: &str| Verdict::Dead {
        decisive: false,
        error: error.into(),
    };
    for (script, verdict) in [
        ("exit 75", not_applied("exit code 75")),
        ("echo full >&2; exit 75", not_applied("exit code 75: full")),
        ("exit 1", dead("exit code 1")),
        (
            "echo a >&2; printf 'b\\033[31m\\tc\\n\\n' >&2; exit 3",
            dead("exit code 3: b\\u{1b}[31m\\tc"),
        ),
        (
            "kill -9 $$",
            Verdict::MaybeApplied {
                error: "killed by signal 9".into(),
            },
        ),
        (
            "echo x >&2; kill -TERM $$",
            Verdict::MaybeApplied {
                error: "killed by signal 15: x".into(),
            },
        ),
    ] {
        assert_eq!(sh(script).call(call("x")).await, verdict, "{script}");
    }
    let Verdict::Dead { error, .. } = sh("yes | head -c 9999 | tr -d '\\n' >&2; exit 1")
        .call(call(""))
        .await
    else {
        panic!("exit 1 is dead")
    };
    assert!(error.len() < 300, "{error}");
}

#[tokio::test]
async fn an_exit_code_speaks_for_earlier_attempts_only_where_that_is_said() {
    let command = ["sh", "-c", "exit \"$(cat)\""].map(str::to_owned).to_vec();
    let effect = ExecEffect::new(Settings {
        decisive: true,
        ..Settings::new(command)
    })
    .expect("an effect");
    let refused = Verdict::Dead {
        decisive: true,
        error: "exit code 1".into(),
    };
    assert_eq!(effect.call(call("1")).await, refused);
    let again = Verdict::NotApplied {
        error: "exit code 75".into(),
        retry_after: None,
    };
    assert_eq!(effect.call(call("75")).await, again);
}

#[tokio::test]
async fn a_command_that_cannot_be_started_applied_nothing() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a path");
    for (program, cause) in [
        ("/nonexistent/charge", "there is no such file"),
        ("semel-nonexistent", "it is in no folder of PATH"),
        (path, "it is not an executable file"),
    ] {
        let effect = effect(&[program]);
        let error = format!("cannot start {program}: {cause}").into();
        assert_eq!(effect.call(call("x")).await, Verdict::Away { error });
        let error = effect.check().expect_err("found beforehand");
        assert_eq!(error.code(), Code::TargetUnavailable);
        assert!(error.to_string().contains(program), "{error}");
    }
    effect(&["sh"]).check().expect("there is one");
    effect(&["/bin/sh"]).check().expect("there is one");
    for command in [vec![], vec![String::new()], vec!["a\0b".to_owned()]] {
        let error = ExecEffect::new(Settings::new(command)).expect_err("refused");
        assert_eq!(error.code(), Code::InvalidConfig);
        assert!(error.to_string().starts_with("command: "), "{error}");
    }
}

#[tokio::test]
async fn a_message_that_it_does_not_read_is_no_failure() {
    let large = vec![b'x'; 4 << 20];
    assert_eq!(
        sh("exec 0<&-; sleep 0.1; echo ok")
            .call(call(large.clone()))
            .await,
        Verdict::Done("ok\n".into())
    );
    assert_eq!(
        effect(&["true"]).call(call(large)).await,
        Verdict::Done("".into())
    );
}

#[tokio::test]
async fn one_that_takes_too_long_is_killed_with_its_helpers() {
    let folder = tempfile::tempdir().expect("a folder");
    let pids = folder.path().join("pids");
    let script = format!(
        "sleep 60 & echo $! > {0}; echo $$ >> {0}; wait",
        pids.display()
    );
    let verdict = hasty(&script).call(call("x")).await;
    assert_eq!(
        verdict,
        Verdict::MaybeApplied {
            error: "no end after 300ms; killed".into()
        }
    );
    for pid in std::fs::read_to_string(&pids).expect("pids").lines() {
        assert!(dies(pid).await, "{pid} lives on");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_kills_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let pids = folder.path().join("pids");
    let script = format!(
        "sleep 60 & echo $! > {0}; echo $$ >> {0}; wait",
        pids.display()
    );
    let effect = sh(&script);
    let dropped = tokio::time::timeout(Duration::from_millis(300), effect.call(call("x"))).await;
    assert!(dropped.is_err());
    for pid in std::fs::read_to_string(&pids).expect("pids").lines() {
        assert!(dies(pid).await, "{pid} lives on");
    }
}

#[tokio::test]
async fn a_helper_that_lives_on_delays_nothing() {
    let before = tokio::time::Instant::now();
    let verdict = sh("sleep 5 & echo $!; exit 0").call(call("x")).await;
    assert!(before.elapsed() < Duration::from_secs(3));
    let Verdict::Done(pid) = verdict else {
        panic!("it ended well")
    };
    let pid = String::from_utf8_lossy(&pid).into_owned();
    assert!(
        is_alive(&pid),
        "what a command leaves running is its own affair"
    );
}

#[tokio::test]
async fn a_long_outcome_is_measured_but_not_kept() {
    let verdict = sh("head -c 20000000 /dev/zero").call(call("x")).await;
    let mut whole = Gathering::new(0);
    whole.push(&vec![0; 20_000_000]);
    assert_eq!(
        verdict,
        whole.into(),
        "its length and digest are those of all of it"
    );
}
