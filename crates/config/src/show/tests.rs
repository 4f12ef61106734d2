use std::fmt::Write;

use super::*;
use crate::all_backends::ALL_BACKENDS;
use crate::settings::{Overrides, Settings};
use crate::{Fault, PipelineSettings};

fn load(text: &str) -> Result<Settings, Vec<Fault>> {
    Settings::of(
        "semel.toml",
        text,
        std::iter::empty(),
        &Overrides::default(),
        ALL_BACKENDS,
    )
}

/// The settings that a run uses, as text.
fn meaning(settings: &Settings) -> String {
    let pipeline = |settings: &PipelineSettings| {
        let pipeline = &settings.pipeline;
        format!(
            "{:?}",
            (
                (&pipeline.name, &pipeline.scope, &pipeline.key),
                (&pipeline.fingerprint, &pipeline.transport, &pipeline.birth),
                (&pipeline.order, &pipeline.gate, pipeline.window),
                (pipeline.lease, pipeline.limits, pipeline.backoff),
                (pipeline.batch, pipeline.concurrency),
                (pipeline.max_message_bytes, pipeline.outcome_limit_bytes),
                (&settings.source, &settings.effect, &settings.dead_letter),
            )
        )
    };
    let pipelines: Vec<_> = settings.pipelines.iter().map(pipeline).collect();
    let (store, accepted) = (&settings.store, settings.accepted);
    format!(
        "{store} {accepted:?} {:?} {pipelines:#?}",
        settings.shutdown
    )
}

#[test]
fn what_is_shown_loads_again_to_the_same_settings() {
    let mut dice = Dice(7);
    let mut loaded = 0;
    for _ in 0..2_000 {
        let text = dice.configuration();
        let Ok(settings) = load(&text) else { continue };
        loaded += 1;
        for origins in [false, true] {
            let shown = settings.effective.toml(origins);
            let again = load(&shown).unwrap_or_else(|faults| panic!("{faults:?} in\n{shown}"));
            assert_eq!(meaning(&again), meaning(&settings), "{text}\n{shown}");
            assert_eq!(
                again.effective.toml(false),
                settings.effective.toml(false),
                "{text}"
            );
            assert_eq!(
                again.effective.json(false),
                settings.effective.json(false),
                "{text}"
            );
        }
    }
    assert!(loaded > 400, "only {loaded} configurations were sound");
}

#[test]
fn a_secret_is_never_shown() {
    let text = r#"
[pipelines."a.b \"c\""]
source = { kind = "stdin" }
key = "line"
[pipelines."a.b \"c\"".effect]
kind = "http"
url = "https://user:c4n4ry@host/p?token=c4n4ry&c4n4ry"
headers = { Authorization = "Bearer c4n4ry", "X-Key" = "c4n4ry" }
[pipelines.b]
source = { kind = "file", path = "in" }
key = "line"
[pipelines.b.effect]
kind = "exec"
command = ["curl", "--url=https://user:c4n4ry@host/?k=c4n4ry"]
[pipelines.b.dead_letter]
kind = "amqp"
url = "amqp://user:c4n4ry@rabbit/%2f"
queue = "dead"
[pipelines.c]
source = { kind = "file", path = "in" }
key = "line"
[pipelines.c.effect]
kind = "kafka"
brokers = "host:9092"
topic = "clean"
properties = { "sasl.password" = "c4n4ry", "sasl.username" = "me" }
"#;
    let settings = load(text).expect("a sound configuration");
    for shown in [
        settings.effective.toml(false),
        settings.effective.toml(true),
        settings.effective.json(true),
    ] {
        assert!(!shown.contains("c4n4ry"), "{shown}");
        assert!(
            shown.contains("https://***@host/p?token=***&***"),
            "{shown}"
        );
        assert!(shown.contains("--url=https://***@host/?k=***"), "{shown}");
        assert!(shown.contains("amqp://***@rabbit/%2f"), "{shown}");
    }
    for pipeline in settings.pipelines.iter().skip(1) {
        let shown = format!("{:?}", pipeline.dead_letter);
        assert!(!shown.contains("c4n4ry"), "{shown}");
    }
    let kafka = format!("{:?}", settings.pipelines[2].effect);
    assert!(
        kafka.contains("host:9092") && !kafka.contains("c4n4ry"),
        "{kafka}"
    );
    let shown = settings.effective.toml(false);
    let again = load(&shown).expect("what is shown loads");
    assert_eq!(again.effective.toml(false), shown);
}

#[test]
fn the_secrets_of_a_store_are_not_shown_and_what_is_shown_loads() {
    for (url, shown) in [
        (
            "postgres://me:c4n4ry@host:5432/db?schema=a&password=c4n4ry",
            "postgres://me:***@host:5432/db?schema=a&password=***",
        ),
        ("postgres://me:c4n/4ry@host/db", "postgres://***"),
    ] {
        let pipeline = "[pipelines.p]\nsource = { kind = \"stdin\" }\nkey = \"line\"\n\
                        effect = { kind = \"stdout\" }\n";
        let settings = load(&format!("[store]\nurl = \"{url}\"\n{pipeline}"));
        let settings = settings.expect("a sound configuration");
        let toml = settings.effective.toml(true);
        assert!(toml.contains(&format!("url = \"{shown}\"")), "{toml}");
        let json = settings.effective.json(true);
        assert!(
            !toml.contains("c4n") && !json.contains("c4n"),
            "{toml}{json}"
        );
        let again = load(&settings.effective.toml(false)).expect("what is shown loads");
        assert_eq!(again.effective.toml(false), settings.effective.toml(false));
    }
}

#[test]
fn every_line_says_where_it_came_from() {
    let text = "shutdown = \"5s\"\n[pipelines.p]\nsource = { kind = \"stdin\" }\nkey = \"line\"\n\
                effect = { kind = \"stdout\" }\n";
    let variable = ("SEMEL__PIPELINES__P__LEASE".into(), "9s".into());
    let overrides = Overrides {
        store: Some("sqlite:x.db".to_owned()),
        pipeline: None,
    };
    let settings = Settings::of(
        "a.toml",
        text,
        std::iter::once(variable),
        &overrides,
        ALL_BACKENDS,
    );
    let settings = settings.expect("a sound configuration");
    let shown = settings.effective.toml(true);
    for line in [
        "shutdown = \"5s\"  # a.toml:1",
        "url = \"sqlite:x.db\"     # --store",
        "key = \"line\"               # a.toml:4",
        "lease = \"9s\"               # SEMEL__PIPELINES__P__LEASE",
        "window = \"7d\"              # window.duration",
        "batch = 1000               # default",
        "# birth is not set",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    let json: Json = serde_json::from_str(&settings.effective.json(true)).expect("JSON");
    assert_eq!(json["settings"]["pipelines"]["p"]["lease"], "9s");
    assert_eq!(json["settings"]["pipelines"]["p"]["birth"], Json::Null);
    assert_eq!(
        json["origins"]["pipelines.p.lease"],
        "SEMEL__PIPELINES__P__LEASE"
    );
}

/// Makes random configurations, the same ones in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // A linear congruential generator; its upper bits are random enough.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % sides
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.roll(choices.len())]
    }

    /// Leaves each setting out, or gives it one of its values.
    fn settings(&mut self, settings: &[(&str, &[&str])]) -> String {
        let mut text = String::new();
        for (name, values) in settings {
            if self.roll(3) > 0 {
                let _ = writeln!(text, "{name} = {}", self.one_of(values));
            }
        }
        text
    }

    fn configuration(&mut self) -> String {
        let mut text = self.settings(&[("shutdown", &["'1s'", "'90s'", "'0s'"])]);
        text += "[store]\n";
        text += self.one_of(&["url = 'sqlite:./a b.db'\n", "url = 'embedded:/x\\y'\n", ""]);
        text += self.one_of(&["", "accept = ['durability']\n", "accept = 'durability'\n"]);
        text += "[window]\n";
        let durations: &[&str] = &["'7d'", "'36h'", "'100ms'", "'1001ms'", "'90 m'"];
        text += &self.settings(&[("duration", durations), ("margin", &["'5ms'", "'1s'"])]);
        for name in ["p", r#""odd name.\"\t""#, "\"été\""] {
            if self.roll(2) == 0 {
                text += &self.pipeline(name);
            }
        }
        text
    }

    fn pipeline(&mut self, name: &str) -> String {
        let mut text = format!("[pipelines.{name}]\n");
        let kind = self.one_of(&["kind = 'stdin'", "kind = 'file', path = 'in'"]);
        let format = self.one_of(&["", ", format = 'lines'", ", format = 'ndjson'"]);
        let _ = writeln!(text, "source = {{ {kind}{format} }}");
        let selectors: &[&str] = &[
            "'line'",
            "'json:/a~1b'",
            "['json:/a', 'header:X']",
            r#""json:/it's \"quoted\"""#,
        ];
        let selector = &["'coordinates'", "'json:/'", "'field:3'"];
        let _ = writeln!(text, "key = {}", self.one_of(selectors));
        text += &self.settings(&[
            (
                "fingerprint",
                &["'none'", "'payload'", "['json:/a', 'line']"],
            ),
            ("transport", selector),
            ("birth", selector),
            ("order", selectors),
            ("window", &["'3d'", "'2h'", "'webhooks'"]),
            ("lease", &["'100ms'", "'1m'"]),
            ("batch", &["1", "0x10", "1_000"]),
            ("concurrency", &["7"]),
            ("max_message", &["'1KiB'", "'1000B'", "'1MB'"]),
            (
                "dead_letter",
                &["{ kind = 'nats', url = 'nats://h', subject = 's', timeout = '9s' }"],
            ),
        ]);
        if self.roll(3) == 0 {
            text += "entity = 'json:/e'\nversion = 'json:/v'\n";
        }
        let _ = writeln!(text, "[pipelines.{name}.retry]");
        text += &self.settings(&[
            ("attempts", &["1", "9"]),
            ("crashes", &["2"]),
            ("backoff", &["'1s'", "'1ms..2h'"]),
        ]);
        let _ = writeln!(text, "[pipelines.{name}.effect]");
        text += &self.effect();
        text
    }

    fn effect(&mut self) -> String {
        let outside = match self.roll(2) {
            0 => self.settings(&[
                ("timeout", &["'5s'", "'61s'"]),
                ("class", &["'unkeyed'"]),
                ("on_doubt", &["'park'", "'repeat'"]),
            ]),
            _ => "class = 'keyed'\nprovider_window = '24h'\n".to_owned(),
        };
        match self.roll(9) {
            0 => "kind = 'sql'\nstatement = '''insert into t\n values (:a, \":b\", :c)'''\n\
                  params = { c = 'json:/d' }\n"
                .to_owned(),
            1 => "kind = 'sql'\nstatements = ['select 1', 'select :x']\n".to_owned(),
            2 => r#"kind = 'file'
path = "out \\ 'file'"
"#
            .to_owned(),
            3 => {
                let own = self.settings(&[
                    ("method", &["'PUT'"]),
                    (
                        "headers",
                        &["{ 'X-Odd.Name' = '***' }", "{ X-Odd = '***' }"],
                    ),
                ]);
                format!("kind = 'http'\nurl = 'http://h:1/p'\n{own}{outside}")
            }
            4 => {
                let own = self.settings(&[("protocol", &["'jsonl'", "'stdin'"])]);
                format!("kind = 'exec'\ncommand = ['sh', '-c', \"a\\nb\\u007f\"]\n{own}{outside}")
            }
            5 => format!(
                "kind = 'kafka'\nbrokers = 'h:1'\ntopic = 't'\nproperties = {{ 'linger.ms' = '7' }}\n{outside}"
            ),
            6 => {
                let own = self.settings(&[
                    ("credentials", &["'a b.creds'"]),
                    (
                        "tls",
                        &[
                            "{ ca = 'a b.pem' }",
                            "{ cert = 'c', key = 'k', server_name = 'n' }",
                        ],
                    ),
                    ("provider_window", &["'1m'"]),
                ]);
                format!("kind = 'nats'\nurl = 'nats://h'\nsubject = 's'\n{own}")
            }
            7 => {
                let place = self.one_of(&["queue = 'q'\n", "exchange = ''\nrouting_key = 'r'\n"]);
                format!("kind = 'amqp'\nurl = 'amqp://h'\n{place}{outside}")
            }
            _ => "kind = 'stdout'\non_doubt = 'repeat'\n".to_owned(),
        }
    }
}
