//! `kind = "exec"`: a command per message. The command's own log counts its calls.

use std::process::Stdio;

use rustix::process::Signal;

use crate::ready::Admin;
use crate::site::{Running, Site, lines, wait_for};

/// A pipeline whose effect is `sh handler.sh`, with further settings of the effect.
fn site(handler: &str, effect: &str, input: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\nretry = {{ attempts = 3, backoff = \"1ms\" }}\n\
         [pipelines.p.effect]\nkind = \"exec\"\ncommand = [\"sh\", \"handler.sh\"]\n{effect}\n"
    );
    Site::with(&[
        ("semel.toml", &config),
        ("in", input),
        ("handler.sh", handler),
    ])
}

const KEYED: &str = "class = \"keyed\"\nprovider_window = \"1h\"";
const LOG: &str =
    "echo \"$SEMEL_KEY $SEMEL_ATTEMPT $SEMEL_FENCING_TOKEN $SEMEL_IDEMPOTENCY_KEY\" >> calls.log\n";

#[test]
fn the_message_comes_on_standard_input_and_the_outcome_is_what_was_printed() {
    let handler =
        format!("{LOG}cat > \"got-$SEMEL_KEY\"; echo \"charged $SEMEL_KEY in $SEMEL_OPERATION\"");
    let site = site(
        &handler,
        "",
        "{\"id\":\"a\", \"n\" : 1}\r\n{\"id\":\"b\"}\n{\"id\":\"a\", \"n\" : 1}\r\n",
    );
    site.run().is(&[("applied", 2), ("replayed", 1)]);
    assert_eq!(site.text("got-a"), "{\"id\":\"a\", \"n\" : 1}\r");
    assert_eq!(site.text("got-b"), "{\"id\":\"b\"}");
    assert_eq!(site.text("calls.log").lines().count(), 2);
    assert_eq!(
        site.rows(
            "s.db",
            "select key, outcome from semel_records order by key"
        ),
        ["a|charged a in p\n", "b|charged b in p\n"]
    );
}

#[test]
fn the_token_of_the_operator_is_not_passed_on() {
    let jsonl = "protocol = \"jsonl\"";
    let answer = "read -r request; id=$(echo \"$request\" | sed 's/.*\"id\":\\([^,]*\\),.*/\\1/'); \
                  echo \"{\\\"id\\\":$id,\\\"status\\\":\\\"done\\\"}\"; cat >/dev/null";
    for (protocol, answer) in [("", "cat >/dev/null"), (jsonl, answer)] {
        let handler = format!("echo \"token '$SEMEL_TOKEN' region '$REGION'\" > env.log\n{answer}");
        let site = site(&handler, protocol, "{\"id\":\"a\"}\n");
        let mut command = site.command();
        command.args(["run", "--output", "json"]);
        command.env("SEMEL_TOKEN", "secret").env("REGION", "north");
        Running::start(&mut command).wait().done();
        assert_eq!(site.text("env.log"), "token '' region 'north'\n");
    }
}

#[test]
fn exit_75_is_tried_again_under_the_same_key_until_it_works() {
    let handler = format!("{LOG}test \"$SEMEL_ATTEMPT\" -ge 3 || exit 75");
    for class in [KEYED, "on_doubt = \"park\"", "on_doubt = \"repeat\""] {
        let site = site(&handler, class, "{\"id\":\"a\"}\n");
        site.run().is(&[("applied", 1)]);
        let log = site.text("calls.log");
        let calls: Vec<Vec<_>> = log.lines().map(|line| line.split(' ').collect()).collect();
        assert_eq!(
            calls.iter().map(|call| call[1]).collect::<Vec<_>>(),
            ["1", "2", "3"],
            "{class}"
        );
        let tokens: Vec<u64> = calls
            .iter()
            .map(|call| call[2].parse().expect("a token"))
            .collect();
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
        assert!(
            calls
                .iter()
                .all(|call| call[3] == calls[0][3] && call[3].len() >= 32),
            "{log}"
        );
        assert_eq!(
            site.rows("s.db", "select attempts, repeats from semel_records"),
            ["3|0"]
        );
    }
}

#[test]
fn attempts_are_calls_and_no_more() {
    let site = site(
        &format!("{LOG}echo busy >&2; exit 75"),
        "",
        "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"a\"}\n",
    );
    // The duplicate of a dead key is dead.
    site.run().is(&[("dead", 3)]);
    assert_eq!(site.text("calls.log").lines().count(), 2 * 3);
    assert_eq!(
        site.rows(
            "s.db",
            "select reason, key, detail from semel_parked where detail like 'exit%' order by key"
        ),
        ["dead|a|exit code 75: busy", "dead|b|exit code 75: busy"]
    );
    site.run().is(&[("dead", 3)]);
    assert_eq!(
        site.text("calls.log").lines().count(),
        2 * 3,
        "a dead key is not called again"
    );
}

#[test]
fn any_other_exit_is_dead_at_once_with_the_last_words() {
    let handler = format!("{LOG}echo first >&2; echo 'card \u{1b}[31mrefused' >&2; exit 3");
    let site = site(&handler, KEYED, "{\"id\":\"a\"}\n");
    let ended = site
        .semel(&["run", "--output", "json"])
        .done()
        .says("exit code 3: card \\u{1b}[31mrefused");
    ended.summary().is(&[("dead", 1)]);
    assert_eq!(site.text("calls.log").lines().count(), 1);
}

#[test]
fn an_end_that_nobody_saw_is_in_doubt_or_repeated_as_the_class_says() {
    for (handler, timeout) in [("kill -9 $$", "10s"), ("exec sleep 20", "200ms")] {
        let effect = |class: &str| format!("timeout = \"{timeout}\"\n{class}");
        let calls = |site: &Site| site.text("calls.log").lines().count();
        let handler = format!("{LOG}{handler}");

        let parked = site(
            &handler,
            &effect("on_doubt = \"park\""),
            "{\"id\":\"a\"}\n{\"id\":\"a\"}\n",
        );
        let ended = parked
            .semel(&["run", "--output", "json"])
            .done()
            .says("in doubt: nobody knows whether in:1 happened: ")
            .says(" (key \"a\", operation ");
        ended.summary().is(&[("in_doubt", 2)]);
        assert_eq!(calls(&parked), 1, "never twice");
        parked.run().is(&[("in_doubt", 2)]);
        assert_eq!(calls(&parked), 1);
        let states = parked.rows("s.db", "select key, state from semel_operations");
        assert_eq!(states, ["a|in_doubt"]);

        let repeated = site(
            &handler,
            &effect("on_doubt = \"repeat\""),
            "{\"id\":\"a\"}\n",
        );
        // Its attempts are spent, and still nobody knows whether the effect happened.
        repeated.run().is(&[("in_doubt", 1)]);
        assert_eq!(calls(&repeated), 3);
        assert_eq!(
            repeated.rows("s.db", "select repeats from semel_records"),
            ["2"],
            "each is on record"
        );

        let keyed = site(&handler, &effect(KEYED), "{\"id\":\"a\"}\n");
        keyed.run().is(&[("in_doubt", 1)]);
        assert_eq!(
            calls(&keyed),
            3,
            "under one key: {}",
            keyed.text("calls.log")
        );
    }
}

/// A handler that answers in the form of `exec` and of `jsonl`.
const EITHER: &str = r#"#!/bin/sh
if [ "$SEMEL_KEY" ]; then cat >/dev/null; echo "$SEMEL_ATTEMPT" >> attempts; exit; fi
while read -r line; do
  echo "$line" | sed 's/.*"attempt":\([0-9]*\).*/\1/' >> attempts
  echo "$line" | sed 's/{"id":\([0-9]*\).*/{"id":\1,"status":"done"}/'
done
"#;

#[test]
fn a_program_that_is_not_there_is_waited_for_and_told_once() {
    for (program, cause) in [
        ("no-such-program", "it is in no folder of PATH"),
        ("./no-such-program", "there is no such file"),
        ("./handler.sh", "it is not an executable file"),
    ] {
        for protocol in ["", "protocol = \"jsonl\""] {
            let site = site(EITHER, protocol, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
            let admin = Admin::new();
            let config = site
                .text("semel.toml")
                .replace("\"sh\", \"handler.sh\"", &format!("\"{program}\""));
            site.write("semel.toml", admin.table() + &config);
            let path = std::env::var("PATH").expect("a PATH");
            let path = format!("{path}:{}", site.path("").display());
            let mut command = site.command();
            command.args(["run", "--output", "json"]).env("PATH", path);
            let mut running = Running::start(&mut command);
            let told = format!("cannot start {program}: {cause} [target-away]; trying ");
            wait_for("a word about it", || running.stderr().contains(&told));
            wait_for("a worker that is not ready", || {
                let (is_ready, said) = admin.ready();
                !is_ready && said["pipelines"]["p"]["state"] == "target-away"
            });
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(site.path("handler.sh"), executable).expect("a program");
            if program != "./handler.sh" {
                let put = site.path("no-such-program");
                std::fs::rename(site.path("handler.sh"), put).expect("its place");
            }
            let ended = running.wait().done();
            ended.summary().is(&[("applied", 2)]);
            assert_eq!(site.text("attempts"), "1\n1\n", "{program} {protocol}");
            let times = |words: &str| ended.stderr.matches(words).count();
            assert_eq!(times("[target-away]"), 1, "{}", ended.stderr);
            assert_eq!(times("p: goes on after "), 1, "{}", ended.stderr);
        }
    }
}

#[test]
fn a_misspelt_program_is_told_before_there_is_a_message() {
    let site = site("", "", "");
    let config = site
        .text("semel.toml")
        .replace("kind = \"file\", path = \"in\"", "kind = \"stdin\"")
        .replace("\"sh\", \"handler.sh\"", "\"./handle\"");
    site.write("semel.toml", config);
    let mut command = site.command();
    let mut running = Running::start(command.arg("run").stdin(Stdio::piped()));
    let told = "p: the target is away: cannot start ./handle: there is no such file [target-away]";
    wait_for("a word about it", || running.stderr().contains(told));
    site.write("handle", "#!/bin/sh\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(site.path("handle"), executable).expect("a program");
    wait_for("a word about its end", || {
        running.stderr().contains("p: the target is back after ")
    });
    running.signal(Signal::TERM);
    running.wait().done();
}

#[test]
fn a_command_that_reads_nothing_and_prints_much_does_not_hang() {
    let big = format!("{{\"id\":\"a\",\"pad\":\"{}\"}}\n", "x".repeat(500_000));
    let site = site(
        "head -c 300000 /dev/zero | tr '\\0' e >&2; head -c 300000 /dev/zero | tr '\\0' o",
        "",
        &big,
    );
    site.run().is(&[("applied", 1)]);
}

#[test]
fn many_dead_letters_for_one_reason_are_told_ten_times_and_counted() {
    // Fewer failures than pause a pipeline.
    let input = lines(0..15, |id| format!("{{\"id\":\"pay-{id}\"}}"));
    let ended = site("echo \"no card $SEMEL_KEY\" >&2; exit 3", "", &input)
        .semel(&["run", "--output", "json"])
        .done();
    ended.summary().is(&[("dead", 15)]);
    let told = ended.stderr.matches("dead: in:").count();
    assert_eq!(told, 10, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("dead: 5 more in the last "),
        "{}",
        ended.stderr
    );
    let line = ended.stderr.lines().find(|line| line.contains("dead: in:"));
    let (_, named) = line
        .and_then(|line| line.split_once("(key \"pay-"))
        .expect("a key");
    let (_, id) = named.split_once("\", operation ").expect("an id");
    assert_eq!(id.trim_end_matches(')').len(), 8, "{named}");
}
