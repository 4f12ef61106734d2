//! Configuration: every fault is found, named with its line, its code and what to do.

mod publish;
mod show;

use crate::site::{Running, Site};

/// The faults that `config check` reports of this text, without the file's name.
#[track_caller]
fn faults(text: &str) -> Vec<String> {
    let site = Site::with(&[("semel.toml", text)]);
    let check = site.semel(&["config", "check"]).code(1);
    assert_eq!(check.stderr, "", "the answer is on standard output");
    let run = site.semel(&["run"]).code(2);
    assert_eq!(run.stdout, "");
    let said: Vec<_> = run
        .stderr
        .lines()
        .map(|line| line.strip_prefix("error: "))
        .collect();
    let answered: Vec<_> = check.stdout.lines().map(Some).collect();
    assert_eq!(said, answered, "`run` says the same");
    check
        .stdout
        .lines()
        .map(|line| line.strip_prefix("semel.toml:").unwrap_or(line).to_owned())
        .collect()
}

/// The faults at the lines of one changed or added setting of a pipeline.
#[track_caller]
fn fault(settings: &str) -> String {
    let mut faults = faults(&format!(
        "{settings}\n[pipelines.p]\nsource = {{ kind = \"stdin\" }}\nkey = \"line\"\n\
         effect = {{ kind = \"stdout\" }}\n"
    ));
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults.remove(0)
}

/// The same for a setting of the pipeline itself.
#[track_caller]
fn pipeline_fault(setting: &str) -> String {
    let mut faults = faults(&format!(
        "[pipelines.p]\n{setting}\nsource = {{ kind = \"stdin\" }}\nkey = \"line\"\n\
         effect = {{ kind = \"stdout\" }}\n"
    ));
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults.remove(0)
}

/// The same for an effect.
#[track_caller]
fn effect_faults(effect: &str) -> Vec<String> {
    faults(&format!(
        "[pipelines.p]\neffect = {{ {effect} }}\nsource = {{ kind = \"stdin\" }}\nkey = \"line\"\n"
    ))
}

#[test]
fn every_fault_is_told_in_the_order_of_its_line() {
    let faults = faults(
        r#"shutdwn = "3s"
shutdown = "30"
[stor]
url = "x"
[pipelines.z]
source = { kind = "fil", path = "in" }
key = "jsn:/id"
effect = { kind = "htp" }
lease = "1ms"
[pipelines.a]
source = { kind = "sqs" }
key = "json:/id"
order = ["json:/id", 3]
retry = { attempts = 0, backof = "1s" }
effect = { kind = "http", url = "nonsense", class = "keyd" }
dead_letter = { kind = "kafka" }
max_message = "8"
[admin]
listen = "x"
[window]
duration = 5
margin = "9d"
"#,
    );
    assert_eq!(
        faults,
        [
            "1: shutdwn: unknown setting; did you mean `shutdown`? [config-unknown-key]",
            "2: shutdown: `30` is no duration; write it like `500ms`, `30s`, `5m`, `72h` or `7d` [invalid-config]",
            "3: stor: unknown setting; did you mean `store`? [config-unknown-key]",
            "6: pipelines.z.source.kind: `fil` is no kind of source; did you mean `file`? [invalid-config]",
            "7: pipelines.z.key: unknown selector \"jsn:/id\", did you mean \"json:/id\"? (a selector is \
             json:/POINTER, header:NAME, field:N, line, coordinates, cloudevents or hash) [invalid-config]",
            "8: pipelines.z.effect.kind: `htp` is no kind of effect; did you mean `http`? [invalid-config]",
            "9: pipelines.z.lease: must be from `100ms` to `12h` [invalid-config]",
            "11: pipelines.a.source.kind: `sqs` sources are not supported by this release [unsupported]",
            "13: pipelines.a.order: must be a string or a list of them, not an integer [invalid-config]",
            "14: pipelines.a.retry.attempts: must be from 1 to 1000000, not 0 [invalid-config]",
            "14: pipelines.a.retry.backof: unknown setting; did you mean `backoff`? [config-unknown-key]",
            "15: pipelines.a.effect.class: `keyd` is unknown; did you mean `keyed`? [invalid-config]",
            "15: pipelines.a.effect.url: it must begin with http:// or https:// [invalid-config]",
            "16: pipelines.a.dead_letter.brokers: is missing [invalid-config]",
            "16: pipelines.a.dead_letter.topic: is missing [invalid-config]",
            "17: pipelines.a.max_message: `8` is no size; write it like `512B`, `64KiB`, `8MiB` or `1GiB` [invalid-config]",
            "19: admin.listen: must be an address and a port, as in `127.0.0.1:9464`; `0.0.0.0:9464` for all \
             addresses [invalid-config]",
            "21: window.duration: must be a string, not an integer [invalid-config]",
            "22: window.margin: must be shorter than the window [invalid-config]",
        ]
    );
}

#[test]
fn whatever_is_missing_is_told_at_its_table() {
    assert_eq!(
        faults(""),
        [
            "1: pipelines: is missing; write `[pipelines.NAME]`, or `[relays.NAME]` to publish an outbox, or `[claims]` or `[gateway]` to serve clients alone [invalid-config]"
        ]
    );
    assert_eq!(
        faults("[pipelines]"),
        [
            "1: pipelines: is missing; write `[pipelines.NAME]`, or `[relays.NAME]` to publish an outbox, or `[claims]` or `[gateway]` to serve clients alone [invalid-config]"
        ]
    );
    assert_eq!(
        faults("\n[pipelines.p]"),
        [
            "2: pipelines.p.source: is missing [invalid-config]",
            "2: pipelines.p.effect: is missing [invalid-config]",
            "2: pipelines.p.key: is missing [invalid-config]",
        ]
    );
    assert_eq!(
        faults(
            "[pipelines.p]\nkey = []\nsource = {}\neffect = { kind = \"http\", class = \"keyed\" }"
        ),
        [
            "2: pipelines.p.key: must not be empty [invalid-config]",
            "3: pipelines.p.source.kind: is missing [invalid-config]",
            "4: pipelines.p.effect.provider_window: is missing [invalid-config]",
            "4: pipelines.p.effect.url: is missing [invalid-config]",
        ]
    );
    assert_eq!(
        faults(
            "[pipelines.p]\nkey = \"line\"\nsource = { kind = \"file\" }\neffect = { kind = \"exec\" }"
        ),
        [
            "3: pipelines.p.source.path: is missing [invalid-config]",
            "4: pipelines.p.effect.command: is missing [invalid-config]",
        ]
    );
}

#[test]
fn durations_and_sizes_need_a_unit_and_have_limits() {
    for (setting, expected) in [
        (
            "lease = \"5\"",
            "`5` is no duration; write it like `500ms`, `30s`, `5m`, `72h` or `7d`",
        ),
        (
            "lease = \"5 mins\"",
            "`5 mins` is no duration; write it like `500ms`, `30s`, `5m`, `72h` or `7d`",
        ),
        ("lease = \"13h\"", "must be from `100ms` to `12h`"),
        ("lease = \"0s\"", "must be from `100ms` to `12h`"),
        ("lease = 30", "must be a string, not an integer"),
        ("lease = 1.5", "must be a string, not a float"),
        (
            "window = \"1000000000000000000s\"",
            "`1000000000000000000s` is longer than 100 years",
        ),
        (
            "window = \"0ms\"",
            "a window of zero remembers nothing; the least is `1ms`",
        ),
        (
            "max_message = \"8mb\"",
            "`8mb` is no size; write it like `512B`, `64KiB`, `8MiB` or `1GiB`",
        ),
        ("max_message = 8", "must be a string, not an integer"),
        ("batch = 0", "must be from 1 to 100000, not 0"),
        ("concurrency = \"4\"", "must be an integer, not a string"),
        (
            "retry = { backoff = \"3s..1s\" }",
            "`3s..1s` begins after its end",
        ),
        (
            "retry = { backoff = \"200ms-30s\" }",
            "`200ms-30s` is no range of waits; write it like `200ms..30s`",
        ),
    ] {
        let name = setting.split(' ').next().unwrap_or_default();
        let name = if name == "retry" {
            "retry.backoff"
        } else {
            name
        };
        assert_eq!(
            pipeline_fault(setting),
            format!("2: pipelines.p.{name}: {expected} [invalid-config]")
        );
    }
    let fault = pipeline_fault("window = \"10s\"\nlease = \"30s\"");
    assert_eq!(
        fault,
        "3: pipelines.p.lease: must not be longer than the window [invalid-config]"
    );
}

#[test]
fn selectors_and_choices_suggest_what_was_meant() {
    for (setting, name, hint) in [
        ("entity = \"line\"", "entity", "needs `version` beside it"),
        (
            "version = \"json:/v\"",
            "version",
            "needs `entity` beside it",
        ),
        (
            "transport = \"headr:x\"",
            "transport",
            "did you mean \"header:x\"?",
        ),
        (
            "fingerprint = \"nothing\"",
            "fingerprint",
            "unknown selector \"nothing\"",
        ),
        ("birth = \"json:created\"", "birth", "json:"),
        ("order = \"field:0\"", "order", "field:"),
        ("tenant = \"json:t\"", "tenant", "json:"),
        (
            "tenant = \"coordinates\"",
            "tenant",
            "tells messages apart, not tenants",
        ),
        ("tenant = \"hash\"", "tenant", "name a place: `json:/…`"),
        ("tenant = [\"json:/a\"]", "tenant", "must be a string"),
    ] {
        let fault = pipeline_fault(setting);
        assert!(
            fault.starts_with(&format!("2: pipelines.p.{name}: ")),
            "{fault}"
        );
        assert!(
            fault.contains(hint) && fault.ends_with(" [invalid-config]"),
            "{fault}"
        );
    }
    assert_eq!(
        pipeline_fault("fingerprnt = \"none\""),
        "2: pipelines.p.fingerprnt: unknown setting; did you mean `fingerprint`? [config-unknown-key]"
    );
}

#[test]
fn an_effect_takes_only_what_fits_its_kind_and_class() {
    for (effect, expected) in [
        (
            "kind = \"sql\", statement = \"select 1\"",
            "kind: `sql` runs in the store's own transaction; \
          point the store at a database, as in `sqlite:./data.db` or `postgres://…`",
        ),
        (
            "kind = \"file\", path = \"out\", on_doubt = \"park\"",
            "on_doubt: does not apply: this effect commits together with its record",
        ),
        (
            "kind = \"file\", path = \"out\", class = \"unkeyed\"",
            "class: `unkeyed` is unknown; known are transactional",
        ),
        (
            "kind = \"exec\", command = \"charge --now\"",
            "command: must be a list, as in [\"charge\", \"--now\"]",
        ),
        (
            "kind = \"exec\", command = []",
            "command: must not be empty",
        ),
        (
            "kind = \"exec\", command = [\"\"]",
            "command: it is empty; write the program and its arguments as a list",
        ),
        (
            "kind = \"exec\", command = [\"true\"], protocol = \"json\"",
            "protocol: `json` is unknown; did you mean `jsonl`?",
        ),
        (
            "kind = \"exec\", command = [\"true\"], timeout = \"0s\"",
            "timeout: must be longer than zero",
        ),
        (
            "kind = \"exec\", command = [\"true\"], on_doubt = \"retry\"",
            "on_doubt: `retry` is unknown; known are park, repeat",
        ),
        (
            "kind = \"exec\", command = [\"true\"], provider_window = \"1h\"",
            "provider_window: belongs to `class = \"keyed\"`",
        ),
        (
            "kind = \"exec\", command = [\"true\"], class = \"keyed\", provider_window = \"0s\"",
            "provider_window: must be longer than zero",
        ),
        (
            "kind = \"http\", url = \"http://h/\", class = \"keyed\", provider_window = \"1h\", on_doubt = \"park\"",
            "on_doubt: belongs to `class = \"unkeyed\"`; a keyed effect is repeated inside its provider's \
          window and in doubt past it",
        ),
        (
            "kind = \"http\", url = \"ftp://h/\"",
            "url: it must begin with http:// or https://",
        ),
        (
            "kind = \"http\", url = \"http://h/\", method = \"PO ST\"",
            "method: it is no method of HTTP; write POST, PUT or the like",
        ),
        (
            "kind = \"http\", url = \"http://h/\", headers = { Idempotency-Key = \"x\" }",
            "headers: headers.Idempotency-Key: it is set by us; leave it out",
        ),
        (
            "kind = \"http\", url = \"http://h/\", decisive = \"402,404\"",
            "decisive: 404 never is decisive: it comes from before anybody has looked for the key",
        ),
        (
            "kind = \"http\", url = \"http://h/\", decisive = \"4xx\"",
            "decisive: `4xx` is no status code from 400 to 499; write codes and commas, as in \"402,422\"",
        ),
        (
            "kind = \"http\", url = \"http://h/\", provider = \"strip\"",
            "provider: nothing is known of `strip`; did you mean `stripe`? (or say `class`, \
          `provider_window` and `decisive` instead)",
        ),
        (
            "kind = \"http\", url = \"http://h/\", provider = \"stripe\", class = \"unkeyed\"",
            "class: `unkeyed` is unknown; did you mean `keyed`?",
        ),
        (
            "kind = \"exec\", command = [\"true\"], protocol = \"jsonl\", decisive = true",
            "decisive: belongs to a command per message; an answer line says so itself, as in \
          {\"status\": \"dead\", \"decisive\": true}",
        ),
        (
            "kind = \"http\", url_file = \"nowhere\"",
            "url_file: cannot read `nowhere`: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(
            effect_faults(effect),
            [format!("2: pipelines.p.effect.{expected} [invalid-config]")]
        );
    }
}

#[test]
fn a_store_is_named_once_and_by_a_url_that_is_known() {
    assert_eq!(
        fault("[store]\nurl = \"embeded:./data\""),
        "2: store.url: a store url begins with its kind, as in `embedded:./data`; did you mean \
         `embedded`? [invalid-config]"
    );
    assert_eq!(
        fault("[store]\nurl = \"sqlite:\""),
        "2: store.url: `sqlite:` needs a path, as in `sqlite:./semel-data` [invalid-config]"
    );
    assert_eq!(
        fault("[store]\nurl = \"postgres:\""),
        "2: store.url: a `postgres` store needs a host, as in \
         `postgres://USER:PASSWORD@HOST:5432/DATABASE` [invalid-config]"
    );
    let unknown = fault("[store]\nurl = \"postgres://h/db?schem=x\"");
    assert!(
        unknown.starts_with("2: store.url: the store's url has a parameter `schem` "),
        "{unknown}"
    );
    assert!(
        fault("[store]\nallow_volatile = true\nurl = \"memory:\"\npool = 3")
            .contains("unknown setting")
    );
    let site = Site::with(&[
        ("url", "memory:\n"),
        (
            "semel.toml",
            &pipeline("[store]\nallow_volatile = true\nurl_file = \"url\"\n"),
        ),
    ]);
    let check = site.semel(&["config", "check"]).done();
    assert_eq!(check.stdout, "semel.toml: ok, 1 pipeline, store memory:\n");
    site.write(
        "semel.toml",
        pipeline("[store]\nallow_volatile = true\nurl = \"memory:\"\nurl_file = \"url\"\n"),
    );
    let check = site.semel(&["config", "check"]).code(1);
    assert!(
        check
            .stdout
            .contains("either `url` or `url_file`, not both"),
        "{}",
        check.stdout
    );
}

#[test]
fn a_file_that_cannot_be_read_or_is_no_toml_is_told_with_its_line() {
    let site = Site::new();
    let missing = "semel.toml: cannot read the configuration: No such file or directory (os error 2); \
                   name another with --config, or make one with `semel init` [config-unreadable]";
    let check = site.semel(&["config", "check"]).code(1);
    assert_eq!(check.stdout, format!("{missing}\n"));
    site.semel(&["run"]).code(2).says(missing);
    site.semel(&["run", "other.toml"])
        .code(2)
        .says("other.toml: cannot read the configuration");
    assert_eq!(
        faults("shutdown = \"3s\"\n\nshutdown = \"4s\"\n"),
        ["3: `shutdown` is there twice [config-syntax]"]
    );
    let half = faults("[store]\nurl = \"memory:\n");
    assert!(
        half[0].starts_with("2: ") && half[0].ends_with("[config-syntax]"),
        "{half:?}"
    );
    let latin = Site::new();
    latin.write("semel.toml", b"x = \"\xFF\"");
    latin.semel(&["run"]).code(2).says("[config-unreadable]");
}

#[test]
fn the_environment_lies_over_the_file_and_flags_over_both() {
    let site = Site::with(&[(
        "semel.toml",
        &pipeline("[store]\nallow_volatile = true\nurl = \"memory:\"\n"),
    )]);
    let check = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = site.command();
        command
            .args(["config", "check"])
            .args(arguments)
            .envs(variables.iter().copied());
        Running::start(&mut command).wait()
    };
    let refused = check(&[("SEMEL__STORE__ALLOW_VOLATILE", "false")], &[]).code(1);
    assert!(
        refused.stdout.contains("forgets everything at exit"),
        "{}",
        refused.stdout
    );
    let over = ("SEMEL__STORE__URL", "sqlite:env.db");
    assert_eq!(
        check(&[], &[]).done().stdout,
        "semel.toml: ok, 1 pipeline, store memory:\n"
    );
    assert_eq!(
        check(&[over], &[]).done().stdout,
        "semel.toml: ok, 1 pipeline, store sqlite:env.db\n"
    );
    assert_eq!(
        check(&[over], &["--store", "embedded:flag"]).done().stdout,
        "semel.toml: ok, 1 pipeline, store embedded:flag\n"
    );
    let wrong = check(&[("SEMEL__STORE__URL", "oracle:x")], &[]).code(1);
    assert!(
        wrong
            .stdout
            .starts_with("SEMEL__STORE__URL: store.url: a store url begins"),
        "{}",
        wrong.stdout
    );
    let unknown = check(&[("SEMEL__STORE__ULR", "memory:")], &[]).code(1);
    assert_eq!(
        unknown.stdout,
        "SEMEL__STORE__ULR: store.ulr: unknown setting; did you mean `url`? [config-unknown-key]\n"
    );
    let deep = check(&[("SEMEL__PIPELINES__P__LEASE", "5")], &[]).code(1);
    assert!(
        deep.stdout
            .starts_with("SEMEL__PIPELINES__P__LEASE: pipelines.p.lease: "),
        "{}",
        deep.stdout
    );
    let flag = check(&[], &["--store", "nothing"]).code(1);
    assert!(
        flag.stdout.starts_with("--store: store.url: "),
        "{}",
        flag.stdout
    );
}

#[test]
fn an_environment_that_is_no_text_matters_only_where_it_is_ours() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let site = Site::with(&[("semel.toml", &pipeline(""))]);
    let latin = OsStr::from_bytes(b"\xFF");
    let mut command = site.command();
    Running::start(command.args(["config", "check"]).env("ELSEWHERE", latin))
        .wait()
        .done();
    let ended = Running::start(command.env("SEMEL__SHUTDOWN", latin))
        .wait()
        .code(1);
    assert_eq!(
        ended.stdout,
        "SEMEL__SHUTDOWN: shutdown: is not Unicode text [invalid-config]\n"
    );
}

#[test]
fn one_pipeline_can_be_chosen_by_its_name() {
    let two = "[pipelines.first]\nsource = { kind = \"file\", path = \"in\" }\nkey = \"line\"\n\
               effect = { kind = \"file\", path = \"first.out\" }\n\
               [pipelines.second]\nsource = { kind = \"file\", path = \"in\" }\nkey = \"line\"\n\
               effect = { kind = \"file\", path = \"second.out\" }\n";
    let site = Site::with(&[("semel.toml", two), ("in", "\"a\"\n")]);
    let unknown = site.semel(&["run", "--pipeline", "frist"]).code(2);
    assert_eq!(
        unknown.stderr,
        "error: --pipeline: pipelines: there is no pipeline `frist`; did you mean `first`? [invalid-config]\n"
    );
    let ended = site
        .semel(&["run", "--pipeline", "second", "--output", "json"])
        .done();
    assert_eq!(ended.summary().pipeline(), "second");
    assert_eq!(
        (site.text("first.out"), site.text("second.out")),
        (String::new(), "\"a\"\n".to_owned())
    );
    let both = site.semel(&["run", "--output", "jsonl"]).done();
    assert_eq!(
        both.stdout.lines().count(),
        2,
        "one object per pipeline, one line each"
    );
    let names: Vec<_> = both
        .stdout
        .lines()
        .map(crate::site::Summary::read)
        .collect();
    assert_eq!(
        (names[0].pipeline(), names[1].pipeline()),
        ("first", "second")
    );
}

#[test]
fn an_output_has_one_writer_and_standard_input_one_reader() {
    let pipeline = |name: &str, source: &str, path: &str| {
        format!(
            "[pipelines.{name}]\nsource = {{ {source} }}\nkey = \"line\"\n\
             effect = {{ kind = \"file\", path = \"{path}\" }}\n"
        )
    };
    let file = "kind = \"file\", path = \"in\"";
    let config =
        pipeline("a", file, "out") + &pipeline("b", file, "./out") + &pipeline("c", file, "other");
    assert_eq!(
        faults(&config),
        [
            "8: pipelines.b.effect.path: writes the same file as `a`; an output has one writer [invalid-config]"
        ]
    );
    let stdin = "kind = \"stdin\"";
    let config = pipeline("a", stdin, "out") + &pipeline("b", stdin, "other");
    assert_eq!(
        faults(&config),
        [
            "6: pipelines.b.source.kind: reads standard input, and so does `a`; only one can [invalid-config]"
        ]
    );
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let site = Site::with(&[("semel.toml", &pipeline(""))]);
    for arguments in [
        &["run", "--bogus"][..],
        &["rnu"],
        &[],
        &["run", "a.toml", "--config", "b.toml"],
    ] {
        let ended = site.semel(arguments).code(2);
        assert!(
            ended.stdout.is_empty() && ended.stderr.contains("Usage:"),
            "{ended:?}"
        );
    }
}

/// A sound pipeline behind `settings`.
fn pipeline(settings: &str) -> String {
    format!(
        "{settings}[pipelines.p]\nsource = {{ kind = \"stdin\" }}\nkey = \"line\"\n\
         effect = {{ kind = \"stdout\" }}\n"
    )
}

#[test]
fn a_variable_reaches_a_pipeline_whatever_the_case_of_its_name() {
    let config = pipeline("").replace("pipelines.p", "pipelines.Pay");
    let site = Site::with(&[("semel.toml", &config)]);
    let mut command = site.command();
    command
        .args(["config", "check"])
        .env("SEMEL__PIPELINES__PAY__LEASE", "5");
    let check = Running::start(&mut command).wait().code(1);
    assert!(
        check
            .stdout
            .starts_with("SEMEL__PIPELINES__PAY__LEASE: pipelines.Pay.lease: must be a string"),
        "{}",
        check.stdout
    );
}

#[test]
fn what_the_design_has_and_this_release_has_not_is_unsupported() {
    for (setting, name) in [
        ("birth = \"cel:message.at\"", "birth"),
        ("fingerprint = [\"line\", \"cel:message\"]", "fingerprint"),
        ("order = \"strict\"", "order"),
    ] {
        let fault = pipeline_fault(setting);
        assert!(
            fault.starts_with(&format!("2: pipelines.p.{name}: "))
                && fault.ends_with("[unsupported]"),
            "{fault}"
        );
    }
    let fault = fault("[store]\nurl = \"dynamodb://h\"");
    assert_eq!(
        fault,
        "2: store.url: `dynamodb` stores are not supported by this release [unsupported]"
    );
}

#[test]
fn every_misspelt_word_finds_its_neighbour() {
    for (setting, hint) in [
        ("fingerprint = \"nonne\"", "did you mean `none`?"),
        ("fingerprint = \"paylod\"", "did you mean `payload`?"),
        ("source = { kind = \"stdni\" }", "did you mean `stdin`?"),
        (
            "source = { kind = \"stdin\", format = \"line\" }",
            "did you mean `lines`?",
        ),
        ("effect = { kind = \"stdot\" }", "did you mean `stdout`?"),
        (
            "effect = { kind = \"stdout\", on_doubt = \"repaet\" }",
            "did you mean `repeat`?",
        ),
        (
            "effect = { kind = \"exec\", command = [\"true\"], class = \"keyd\", on_doubt = \"park\" }",
            "did you mean `keyed`?",
        ),
        ("retry = { attemps = 3 }", "did you mean `attempts`?"),
    ] {
        let name = setting.split(' ').next().expect("a name");
        let rest = [
            "source = { kind = \"stdin\" }",
            "effect = { kind = \"stdout\" }",
        ];
        let rest = rest.into_iter().filter(|line| !line.starts_with(name));
        let rest: Vec<_> = rest.collect();
        let text = format!(
            "[pipelines.p]\nkey = \"line\"\n{}\n{setting}\n",
            rest.join("\n")
        );
        let faults = faults(&text);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains(hint), "{faults:?}");
    }
    let site = Site::with(&[("semel.toml", &pipeline(""))]);
    for (variable, hint) in [
        ("SEMEL__SHUTDWON", "did you mean `shutdown`?"),
        ("SEMEL__STORE_URL", "did you mean `SEMEL__STORE__URL`?"),
        ("SEMEL_STORE__URL", "as in SEMEL__STORE__URL"),
        ("SEMEL_PIPELINES_P_LEASE", "as in SEMEL__STORE__URL"),
    ] {
        let mut command = site.command();
        command.args(["config", "check"]).env(variable, "5s");
        let check = Running::start(&mut command).wait().code(1).stdout;
        assert!(
            check.starts_with(variable) && check.contains(hint),
            "{check}"
        );
    }
    let mut command = site.command();
    command
        .args(["config", "check"])
        .env("SEMEL_OPERATION", "p")
        .env("SEMEL_KEY", "k");
    Running::start(&mut command).wait().done();
}

#[test]
fn the_reference_is_printed_and_is_a_sound_configuration() {
    let site = Site::new();
    let reference = site.semel(&["config", "reference"]).done().stdout;
    assert!(reference.contains("#duration = \"7d\""), "{reference}");
    site.write("semel.toml", &reference);
    let checked = site.semel(&["config", "check"]).done().stdout;
    assert!(checked.starts_with("semel.toml: ok, "), "{checked}");
}
