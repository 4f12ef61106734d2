//! A folder as an operator finds it: runs have left a store with keys in every state.

use std::io::Write;
use std::process::{ChildStdin, Stdio};

use serde_json::Value;

use crate::site::{Ended, Site, lines, wait_for};

/// The stores that the operating verbs are tested on.
pub(crate) const STORES: [&str; 2] = ["embedded:data", "sqlite:s.db"];

/// A pipeline `pay` on this store whose effect is `sh handler.sh`, which has run over:
///
/// | key | state |
/// |---|---|
/// | `done-1`, `json:7` | completed, with the outcome `charged KEY` |
/// | `dead-1` | dead, its dead letter kept |
/// | `doubt-1`, `doubt-2` | in doubt, their messages kept |
///
/// and a message in conflict with `done-1`.
pub(crate) fn worked(store: &str) -> Site {
    let site = fresh(store);
    let input = ["done-1", "dead-1", "doubt-1", "doubt-2"];
    let mut text = lines(input, |id| format!("{{\"id\":\"{id}\"}}"));
    text.push_str("{\"id\":7}\n{\"id\":\"done-1\",\"amount\":2}\n");
    site.write("in", text);
    site.run().is(&[
        ("applied", 2),
        ("dead", 1),
        ("in_doubt", 2),
        ("conflicts", 1),
    ]);
    site
}

/// Makes the same before anything has run, without a store.
pub(crate) fn fresh(store: &str) -> Site {
    let pipeline = "source = { kind = \"file\", path = \"in\" }\nkey = \"json:/id\"\n\
                    pause_after = 0\nretry = { backoff = \"1h\" }\n\
                    effect = { kind = \"exec\", timeout = \"10m\", command = [\"sh\", \"handler.sh\"] }\n";
    let one = format!("[store]\nurl = \"{store}\"\n[pipelines.pay]\n{pipeline}");
    let two = format!("{one}[pipelines.mail]\n{pipeline}");
    Site::with(&[
        ("semel.toml", &one),
        ("two.toml", &two),
        ("in", ""),
        ("handler.sh", HANDLER),
    ])
}

/// Starts a run that has the store open and waits for standard input, until the returned handle is dropped.
pub(crate) fn worker(site: &Site) -> (std::process::Child, ChildStdin) {
    let config = site
        .text("semel.toml")
        .replace("{ kind = \"file\", path = \"in\" }", "{ kind = \"stdin\" }");
    site.write("worker.toml", config);
    let mut command = site.command();
    let mut child = command
        .args(["run", "worker.toml"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("semel");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(b"{\"id\":\"by-worker\"}\n")
        .expect("a message");
    wait_for("the effect", || site.path("ran-by-worker").exists());
    (child, stdin)
}

/// The handler; the key decides what it does.
const HANDLER: &str = "cat >/dev/null; touch \"ran-$SEMEL_KEY\"\n\
    case $SEMEL_KEY in\n\
    dead-*) echo card declined >&2; exit 3;;\n\
    doubt-*) kill -9 $$;;\n\
    again-*) exit 75;;\n\
    slow-*) exec sleep 100;;\n\
    esac\n\
    printf 'charged %s' \"$SEMEL_KEY\"\n";

/// The single object that a verb printed with `--output json`.
#[track_caller]
pub(crate) fn object(ended: &Ended) -> Value {
    let line = ended.stdout.strip_suffix('\n').expect("a line");
    let value: Value = serde_json::from_str(line).expect("JSON");
    assert!(value.is_object(), "{line}");
    value
}

/// The items of a list that a verb printed with `--output json`.
#[track_caller]
pub(crate) fn items(ended: &Ended) -> Vec<Value> {
    let document: Value =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    assert_eq!(document["semel"], 1);
    let items = document["items"].as_array().expect("a list");
    items.clone()
}

/// The texts of one member of each item, sorted.
#[track_caller]
pub(crate) fn member(items: &[Value], name: &str) -> Vec<String> {
    let texts = items.iter().map(|item| item[name].as_str());
    let mut texts: Vec<_> = texts.map(|text| text.expect("a text").to_owned()).collect();
    texts.sort_unstable();
    texts
}

impl Site {
    /// The state of a key of `pay`; nothing if it is absent.
    pub(crate) fn state(&self, key: &str) -> Option<String> {
        let ended = self.semel(&["keys", "show", "--output", "json", key]);
        let state = |ended: &Ended| object(ended)["state"].as_str().map(str::to_owned);
        match ended.status.code() {
            Some(0) => state(&ended),
            Some(1) => None,
            code => panic!("{code:?}: {ended:#?}"),
        }
    }

    /// The audit trail, oldest first: who, what, before, after, why.
    pub(crate) fn trail(&self) -> Vec<[String; 5]> {
        let ended = self.semel(&["store", "audit", "--output", "json"]).done();
        items(&ended)
            .iter()
            .map(|entry| {
                ["by", "action", "before", "after", "reason"]
                    .map(|name| entry[name].as_str().expect("a text").to_owned())
            })
            .collect()
    }
}
