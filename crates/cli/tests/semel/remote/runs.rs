//! Messages that a worker runs again for the command line: foretold, run and reported as by the verb itself, and left
//! alone by whoever has had enough.

use rustix::process::Signal;
use serde_json::Value;

use super::timeless;
use crate::admin::runs::{ACTIONS, KEYED, Troubled, ids, mixed};
use crate::site::{Ended, Running, wait_for};

/// Asks the worker of a site with a verb.
fn begun(troubled: &Troubled, words: &[&str]) -> Running {
    let url = format!("http://127.0.0.1:{}", troubled.port);
    let mut command = troubled.site.command();
    command.args(words).env("SEMEL_ADMIN", url);
    Running::start(&mut command)
}

fn there(troubled: &Troubled, words: &[&str]) -> Ended {
    begun(troubled, words).wait()
}

/// The lines that a run printed, without the time that it took.
fn untimed(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        if let Ok(mut object) = serde_json::from_str::<Value>(line) {
            assert!(object["elapsed_seconds"].is_f64(), "{object}");
            object["elapsed_seconds"] = Value::Null;
            return object.to_string();
        }
        match line.find(" deliveries in ") {
            Some(at) => line[..at].to_owned(),
            None => line.to_owned(),
        }
    });
    lines.collect()
}

#[test]
fn messages_are_foretold_and_run_by_a_worker_as_by_the_verb_itself() {
    for (_, verb, count) in ACTIONS {
        let mine = Troubled::new("sqlite:s.db", KEYED, &mixed());
        let asked = Troubled::new("sqlite:s.db", KEYED, &mixed());
        let _worker = asked.worker();
        let words: Vec<_> = verb.split(' ').collect();
        let json = [&words[..], &["--output", "json"]].concat();
        let (here, foretold) = (mine.site.semel(&json).code(1), there(&asked, &json).code(1));
        assert_eq!(timeless(&here.stdout), timeless(&foretold.stdout), "{verb}");
        assert_eq!(
            foretold.stdout.matches("\"predicted\":").count(),
            count,
            "{verb}"
        );
        foretold.says("--reason WHY --yes");
        assert!(asked.effects().is_empty(), "{verb}: nothing was run");
        let yes = ["--reason", "the bank is back", "--yes"];
        let order = [&json[..], &yes].concat();
        let (here, there) = (mine.site.semel(&order).done(), there(&asked, &order).done());
        assert_eq!(untimed(&here.stdout), untimed(&there.stdout), "{verb}");
        let came = if verb.starts_with("quarantine") {
            "\"conflicts\":1"
        } else {
            "\"applied\":1"
        };
        assert!(there.stdout.contains(came), "{verb}: {there:#?}");
        let members = |line: &str| {
            let names = line
                .split("\":")
                .map(|it| it.rsplit('"').next().unwrap_or_default().to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(
            members(&here.stdout),
            members(&there.stdout),
            "in the same order"
        );
        assert_eq!(mine.effects(), asked.effects(), "{verb}");
        // Once more there is nothing of them, but what stays in quarantine.
        let none = super::runs::there(&asked, &order);
        let here = mine.site.semel(&order);
        assert_eq!(none.status, here.status, "{verb}: {none:#?} {here:#?}");
    }
}

#[test]
fn a_table_is_that_of_the_verb_itself() {
    let mine = Troubled::new("sqlite:s.db", KEYED, &ids(0, 3));
    let asked = Troubled::new("sqlite:s.db", KEYED, &ids(0, 3));
    let _worker = asked.worker();
    let order = [
        "dead-letters",
        "replay",
        "--all",
        "--reason",
        "why",
        "--yes",
    ];
    let (here, there) = (mine.site.semel(&order).done(), there(&asked, &order).done());
    assert_eq!(untimed(&here.stdout), untimed(&there.stdout));
    assert!(
        there
            .stdout
            .contains("pay: dead letters: 3 dropped, 0 kept"),
        "{there:#?}"
    );
}

#[test]
fn who_has_had_enough_leaves_the_run_going_and_is_told_where() {
    let asked = Troubled::new("sqlite:s.db", KEYED, &ids(0, 20));
    asked.site.write("shut", "");
    let _worker = asked.worker();
    let order = [
        "dead-letters",
        "replay",
        "--all",
        "--reason",
        "why",
        "--yes",
    ];
    let verb = begun(&asked, &order);
    wait_for("effects", || !asked.effects().is_empty());
    verb.signal(Signal::INT);
    let ended = verb.wait();
    let place = format!("http://127.0.0.1:{}/v1/runs", asked.port);
    // Its order was answered already, or not.
    let is_told = ["the run may have begun", "the run goes on in the worker"]
        .iter()
        .any(|it| ended.stderr.contains(it));
    assert!(is_told, "{ended:#?}");
    ended.code(1).says(&place);
    std::fs::remove_file(asked.site.path("shut")).expect("it was shut");
    let run = asked.ended();
    assert_eq!(
        (&run["state"], &run["done"]),
        (&"ended".into(), &20.into()),
        "{run}"
    );
    assert_eq!(asked.effects().len(), 20);
}
