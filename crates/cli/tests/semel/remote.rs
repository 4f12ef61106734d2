//! Verbs asked of a worker with `--admin`: what they print is what they print of the store, byte for byte.

mod answers;
mod check;
mod extension;
mod failures;
mod orders;
mod relay_dead_letters;
mod runs;

use std::process::Stdio;

use rustix::process::Signal;

use crate::admin::access::token;
use crate::admin::runs::{KEYED, Troubled, mixed};
use crate::claims::server::{Request, ask};
use crate::operator::{STORES, worked};
use crate::site::{Ended, Running, Site, wait_for};

/// A site with a store, and a worker that can be asked about it.
pub(super) struct Asked {
    pub(super) site: Site,
    pub(super) port: u16,
}

impl Asked {
    /// Makes one over what runs have left in a store, of two pipelines, as a store that nobody has open.
    pub(super) fn new(store: &str) -> Self {
        let site = worked(store);
        let port = free_port::take().expect("a free port");
        let admin = format!("[admin]\nlisten = \"127.0.0.1:{port}\"\n");
        let config = site.text("two.toml") + &admin;
        let file = "source = { kind = \"file\", path = \"in\" }";
        let stdin = "source = { kind = \"stdin\" }";
        let worker = config
            .replacen(file, stdin, 1)
            .replace("path = \"in\"", "path = \"none\"");
        // Verbs and worker have the same pipelines.
        site.write("semel.toml", config);
        site.write("worker.toml", worker);
        site.write("none", "");
        Self { site, port }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts the worker, which gets no message.
    pub(super) fn worker(&self) -> Running {
        let mut command = self.site.command();
        command.args(["run", "worker.toml"]).stdin(Stdio::piped());
        let mut running = Running::start(&mut command);
        wait_for("a worker that is ready", || {
            assert!(running.is_running(), "{}", running.stderr());
            std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
                && ask(self.port, &Request::get("/readyz")).status == 200
        });
        running
    }

    /// Runs a verb on the store.
    pub(super) fn here(&self, words: &[&str]) -> Ended {
        self.site.semel(words)
    }

    /// Asks the worker with a verb; nothing of it is typed.
    pub(super) fn there(&self, words: &[&str]) -> Ended {
        let mut command = self.site.command();
        command.args(words).env("SEMEL_ADMIN", self.url());
        Running::start(&mut command).wait()
    }
}

/// Ends a worker.
pub(super) fn end(worker: Running) {
    worker.signal(Signal::TERM);
    worker.wait().done();
}

/// A text without what depends on the moment at which it was printed, and with lines in an order of their own: files are
/// read in another order than memory.
pub(super) fn timeless(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text
        .lines()
        .map(|line| {
            let mut line = line.trim_end_matches(',').to_owned();
            let parts = line.split('(').map(|part| match part.split_once(')') {
                Some((within, rest)) if is_distance(within) => format!("<since>){rest}"),
                Some(_) | None => part.to_owned(),
            });
            line = parts.collect::<Vec<_>>().join("(");
            // Other tests fill the disk, and empty it.
            if let Some(at) = line.find("its disk has ") {
                line.truncate(at);
            }
            if let Some(at) = line.find("\"now\":\"") {
                let begin = at + "\"now\":\"".len();
                line.replace_range(begin..begin + "2026-11-21T10:33:00.000Z".len(), "<now>");
            }
            line
        })
        .collect();
    lines.sort();
    lines
}

/// Tells whether a text in parentheses is the distance of a time from now.
fn is_distance(text: &str) -> bool {
    let until = text.strip_prefix("in ");
    let is_until = until.is_some_and(|it| it.starts_with(|digit: char| digit.is_ascii_digit()));
    is_until || text.ends_with(" ago")
}

/// Verbs that show something.
const SHOWN: [&str; 24] = [
    "keys list",
    "keys list --state in_doubt --pipeline pay",
    "keys list --prefix d --tenant ''",
    "keys list --held",
    "keys list --older-than 1h",
    "keys list --limit 1 --state dead",
    "keys show done-1",
    "keys show done-1 json:7 dead-1 doubt-1 --pipeline pay",
    "keys explain done-1",
    "keys explain json:7 --pipeline pay",
    "keys explain dead-1",
    "keys explain doubt-1",
    "in-doubt list",
    "in-doubt list --repeated",
    "in-doubt show doubt-1",
    "dead-letters list",
    "dead-letters list --pipeline mail",
    "dead-letters show dead-1 --pipeline pay",
    "quarantine list",
    "quarantine show done-1",
    "store audit",
    "store audit --key json:7 --since 1h",
    "store stats",
    "pipelines list",
];

#[test]
fn each_verb_that_shows_something_prints_of_a_worker_what_it_prints_of_the_store() {
    for store in STORES {
        let asked = Asked::new(store);
        for (verb, key) in [("hold", "done-1"), ("extend", "json:7")] {
            let window = ["--window", "30d"];
            let window = if verb == "extend" { &window[..] } else { &[] };
            let words = [
                "keys",
                verb,
                key,
                "--pipeline",
                "pay",
                "--yes",
                "--reason",
                "why",
            ];
            asked.here(&[&words[..], window].concat()).done();
        }
        let pause = ["pipelines", "pause", "mail", "--reason", "INC-7", "--yes"];
        asked.here(&pause).done();
        let id = quarantined(&asked);
        let one = format!("quarantine show {}", &id[..8]);
        let verbs: Vec<&str> = SHOWN.into_iter().chain([&*one]).collect();
        let outputs = ["table", "json", "jsonl"];
        let all = |run: &dyn Fn(&[&str]) -> Ended| {
            let each = verbs
                .iter()
                .flat_map(|verb| outputs.map(|output| (*verb, output)));
            let each = each.map(|(verb, output)| {
                let words = verb.split(' ').map(|it| it.trim_matches('\''));
                let words: Vec<_> = words.chain(["--output", output]).collect();
                (format!("{verb} --output {output}"), run(&words))
            });
            each.collect::<Vec<_>>()
        };
        let here = all(&|words| asked.here(words));
        let config = asked.here(&["config", "show", "worker.toml", "--output", "json"]);
        let worker = asked.worker();
        let there = all(&|words| asked.there(words));
        for ((verb, here), (_, there)) in here.iter().zip(&there) {
            assert_eq!(
                here.status, there.status,
                "{store}: {verb}: {here:#?} {there:#?}"
            );
            let told = |ended: &Ended| {
                // Of an embedded store the files are counted as they are, and it does not tell what passed its window.
                let lines = timeless(&ended.stdout).into_iter();
                let lines = lines.map(|it| without_measures(&it));
                lines
                    .filter(|it| !it.starts_with("past their window"))
                    .collect::<Vec<_>>()
            };
            assert_eq!(told(here), told(there), "{store}: {verb}");
            assert!(
                here.stdout.len() > 1
                    || verb.contains("1h")
                    || verb.contains("mail")
                    || verb.contains("repeated"),
                "{store}: {verb}"
            );
        }
        for words in [
            ["keys", "show", "done-1", "--outcome"],
            ["dead-letters", "show", "dead-1", "--payload"],
        ] {
            let there = asked
                .there(&[&words[..], &["--pipeline", "pay"]].concat())
                .done();
            assert!(there.stdout == "charged done-1" || there.stdout == "{\"id\":\"dead-1\"}");
        }
        let there = asked.there(&["config", "show", "--output", "json"]).done();
        assert_eq!(config.done().stdout, there.stdout, "{store}");
        // A typed address is in the commands to paste.
        let url = asked.url();
        let words = ["keys", "explain", "dead-1", "--admin", &url];
        let typed = asked.here(&words).done().stdout;
        assert!(
            typed.contains(&format!("--admin {url} --pipeline pay")),
            "{typed}"
        );
        end(worker);
    }
}

/// The id of the message in quarantine.
fn quarantined(asked: &Asked) -> String {
    let listed = asked
        .here(&["quarantine", "list", "--output", "jsonl"])
        .done();
    let item: serde_json::Value = serde_json::from_str(&listed.stdout).expect("one message");
    item["id"].as_str().expect("an id").to_owned()
}

/// A line without what a store measures while it is open.
fn without_measures(line: &str) -> String {
    let mut line = line.to_owned();
    for name in ["\"disk_bytes\":", "\"remembered\":", "on disk:"] {
        if let Some(at) = line.find(name) {
            let begin = at + name.len();
            let len = line[begin..].find([',', '}']).unwrap_or(line.len() - begin);
            line.replace_range(begin..begin + len, "");
        }
    }
    line
}

#[test]
fn a_key_or_a_message_that_is_not_there_is_answered_with_no() {
    let asked = Asked::new(STORES[1]);
    let worker = asked.worker();
    for words in [
        &["keys", "show", "none"][..],
        &["keys", "explain", "none"],
        &["in-doubt", "show", "none"],
        &["in-doubt", "show", "done-1"],
        &["dead-letters", "show", "none", "--pipeline", "pay"],
        &["quarantine", "show", "none"],
    ] {
        let here = asked.here(words).code(1);
        let there = asked.there(words).code(1);
        assert_eq!((here.stdout, there.stdout), (String::new(), String::new()));
        assert!(!there.stderr.is_empty(), "{words:?}");
    }
    // What was found is printed all the same.
    let there = asked.there(&["keys", "show", "none", "done-1", "--output", "jsonl"]);
    assert_eq!(there.code(1).stdout.lines().count(), 1);
    end(worker);
}

#[test]
fn a_verb_that_no_worker_answers_is_refused_by_name() {
    let asked = Asked::new(STORES[1]);
    for (words, name) in [
        (&["replay", "--id", "x"][..], "semel replay"),
        (&["producers", "list"], "semel producers"),
        (&["store", "migrate"], "semel store migrate"),
        (&["config", "show"], "--output json"),
    ] {
        asked.there(words).code(2).says(name);
    }
    // Those of this machine have no such option.
    for words in [
        &["store", "import", "a.jsonl"][..],
        &["config", "check"],
        &["run"],
    ] {
        let words = [words, &["--admin", "http://127.0.0.1:1"]].concat();
        asked.here(&words).code(2).says("--admin");
    }
}

#[test]
fn a_store_that_is_typed_goes_before_the_variable_and_not_with_the_option() {
    let asked = Asked::new(STORES[1]);
    let store = [
        "keys",
        "show",
        "done-1",
        "--pipeline",
        "pay",
        "--store",
        "sqlite:s.db",
    ];
    // Nobody listens there.
    asked.there(&store).done();
    let config = [
        "keys",
        "show",
        "done-1",
        "--pipeline",
        "pay",
        "--config",
        "semel.toml",
    ];
    asked.there(&config).done();
    // These have no such option, and are about the configuration.
    asked.there(&["config", "check", "semel.toml"]).done();
    asked.there(&["check", "semel.toml"]).done();
    asked
        .there(&["keys", "show", "done-1"])
        .code(3)
        .says("[worker-unreachable]");
    let url = asked.url();
    let both = [&store[..], &["--admin", &url]].concat();
    asked.here(&both).code(2).says("--admin");
    asked
        .here(&["keys", "list", "--ca", "ca.pem"])
        .code(2)
        .says("--ca go with --admin");
}

#[test]
fn a_token_reads_and_changes_as_its_role_allows_and_is_named_in_the_audit_trail() {
    let asked = Troubled::at("0.0.0.0", "embedded:data", KEYED, &mixed());
    let site = &asked.site;
    for (name, role) in [("bob", "operator"), ("eve", "viewer")] {
        let token = token(site, &format!("{name} --role {role}"));
        let token = token.strip_prefix("Bearer ").expect("a token").to_owned();
        site.write(name, token + "\n");
    }
    let _worker = asked.worker();
    let url = format!("http://127.0.0.1:{}", asked.port);
    let ask =
        |words: &[&str], more: &[&str]| site.semel(&[words, &["--admin", &url], more].concat());
    let list = ["keys", "list", "--output", "json"];
    let nobody = ask(&list, &[]).code(2).says("[unauthorized]");
    assert_eq!(nobody.stdout, "");
    let forget = ["keys", "forget", "dead-1", "--reason", "why", "--yes"];
    for (name, code) in [("eve", 2), ("bob", 0)] {
        let with = ["--token-file", name];
        assert!(ask(&list, &with).done().stdout.contains("dead-1"));
        let doubt = ask(&["in-doubt", "show", "doubt-1", "--output", "json"], &with).done();
        let is_shown = doubt.stdout.contains("\"payload\":");
        assert_eq!(is_shown, name == "bob", "{doubt:#?}");
        let ended = ask(&forget, &with).code(code);
        if name == "eve" {
            ended.says("the role `operator`").says("[forbidden]");
        }
    }
    let shown = ask(
        &["dead-letters", "show", "dead-1"],
        &["--token-file", "eve"],
    )
    .done();
    assert!(shown.stdout.contains("does not see payloads"), "{shown:#?}");
    let payload = ["dead-letters", "show", "dead-1", "--payload"];
    let payload = ask(&payload, &["--token-file", "eve"]).code(1);
    assert_eq!(payload.stdout, "");
    let audit = ["store", "audit", "--output", "jsonl", "--key", "dead-1"];
    let audit = ask(&audit, &["--token-file", "eve"]).done().stdout;
    assert!(audit.contains("\"by\":\"bob\""), "{audit}");
}
