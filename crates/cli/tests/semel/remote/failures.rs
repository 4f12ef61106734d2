//! Workers that are slow, fail, or are gone in the middle of an order, and what the operator is told of it. Played by a
//! server.

use rustix::process::Signal;

use super::answers::{HELD, Played, TOKEN, answer, problem};
use crate::site::Site;

const FORGET: [&str; 6] = ["keys", "forget", "a", "--reason", "why", "--yes"];
const RETRY: [&str; 7] = [
    "in-doubt",
    "retry",
    "--all",
    "--reason",
    "why",
    "--yes",
    "--output=json",
];

/// A plan of one change.
fn plan() -> String {
    let change = "{\"key\":\"a\",\"operation_id\":\"0\",\"pipeline\":\"pay\",\"action\":\"forget\",\"before\":\"dead\",\
                  \"after\":\"absent\"}";
    let plan = format!(
        "{{\"semel\":1,\"token\":\"t\",\"changes\":[{change}],\"left\":[],\"complete\":true}}"
    );
    answer("200 OK", "", &plan)
}

/// A run in this state, of which this has come.
fn run(state: &str, came: &str) -> String {
    let run = format!(
        "{{\"semel\":1,\"id\":\"r-1\",\"state\":\"{state}\",\"foretold\":{{}},\"came\":{{{came}}},\"differ\":0,\
         \"complete\":false,\"results\":[]}}"
    );
    answer("200 OK", "", &run)
}

#[test]
fn an_interrupt_is_heard_while_a_worker_is_slow_and_says_what_is_known() {
    for (words, answers, code, said) in [
        (
            &RETRY[..],
            vec![plan(), run("running", ""), HELD.to_owned()],
            1,
            "the run goes on in the worker",
        ),
        (
            &RETRY,
            vec![plan(), HELD.to_owned()],
            1,
            "the run may have begun",
        ),
        (
            &FORGET,
            vec![plan(), HELD.to_owned()],
            3,
            "the order may have been given",
        ),
    ] {
        let count = answers.len();
        let played = Played::new(answers);
        let site = Site::new();
        let verb = played.begin(&site, words);
        played.await_requests(count);
        verb.signal(Signal::INT);
        let ended = verb.wait().code(code).says(said);
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn a_run_that_cannot_be_looked_at_any_more_may_go_on() {
    let unknown = problem(
        "404 Not Found",
        "run-unknown",
        "the worker remembers no run",
    );
    let played = Played::new(vec![plan(), run("running", ""), unknown]);
    let gone = played.ask(&RETRY).code(3).says("[run-unknown]");
    let gone = gone.says("the run may go on").says("/v1/runs");
    assert!(!gone.stderr.contains("still set aside"), "{gone:#?}");
    let played = Played::new(vec![plan(), run("running", "")]);
    let lost = played.ask(&RETRY).code(3).says("[worker-unreachable]");
    lost.says("the run may go on in the worker")
        .says("/v1/runs/r-1");
}

#[test]
fn a_look_that_fails_is_tried_again() {
    let played = Played::new(vec![
        plan(),
        run("running", ""),
        String::new(),
        run("running", ""),
        String::new(),
        run("ended", "\"applied\":1"),
    ]);
    let ended = played.ask(&RETRY).done();
    assert!(!ended.stderr.contains("may go on"), "{ended:#?}");
    assert_eq!(played.requests().len(), 6);
}

#[test]
fn a_run_that_left_something_as_it_was_ends_with_no() {
    for (came, said) in [
        ("\"applied\":1,\"refused\":2", "2 refused"),
        ("\"left\":1", "1 left"),
        ("\"unknown\":1", "1 unknown"),
    ] {
        let played = Played::new(vec![plan(), run("ended", came)]);
        played.ask(&RETRY).code(1).says(said);
    }
    let played = Played::new(vec![plan(), run("ended", "\"applied\":1,\"refused\":0")]);
    played.ask(&RETRY).done();
}

#[test]
fn of_an_order_whose_answer_says_nothing_it_is_told_that_it_may_have_been_given() {
    let may = "the order may have been given";
    for words in [&FORGET[..], &RETRY] {
        for (sent, code) in [
            (String::new(), "worker-unreachable"),
            (answer("500 Oops", "", "<html>"), "worker-incompatible"),
            (answer("404 Not Found", "", "<html>"), "worker-incompatible"),
            (
                answer("502 Bad Gateway", "", "<html>"),
                "worker-unreachable",
            ),
            (answer("200 OK", "", "<html>"), "worker-incompatible"),
            (answer("200 OK", "", "{}"), "worker-incompatible"),
            (
                answer("200 OK", "", &" ".repeat(33 << 20)),
                "worker-incompatible",
            ),
            (
                answer("303 See Other", "location: /\r\n", ""),
                "worker-incompatible",
            ),
            (
                problem("503 Service Unavailable", "store-unavailable", "away"),
                "store-unavailable",
            ),
        ] {
            let played = Played::new(vec![plan(), sent]);
            let ended = played.ask(words).code(3).says(may).says("/v1/runs");
            let ended = ended.says(&format!("[{code}]"));
            assert!(!ended.stderr.contains(TOKEN), "{ended:#?}");
            assert_eq!(played.requests().len(), 2, "it is not given again");
        }
        // These say that it was not.
        let location = "location: https://login.example/?next=x\r\n";
        for sent in [
            answer("307 Temporary Redirect", location, ""),
            problem("409 Conflict", "run-unfinished", "one goes on"),
        ] {
            let played = Played::new(vec![plan(), sent]);
            let ended = played.ask(words);
            assert!(!ended.status.success(), "{ended:#?}");
            assert!(!ended.stderr.contains("may have"), "{ended:#?}");
        }
    }
    // Whoever only looks has given none.
    let played = Played::new(vec![answer("500 Oops", "", "<html>")]);
    let looked = played.ask(&["keys", "list"]).code(3);
    assert!(!looked.stderr.contains("may have"), "{looked:#?}");
}

#[test]
fn a_plan_an_answer_and_a_run_of_another_format_are_refused_by_its_number() {
    let of_tomorrow = |sent: String| sent.replace("{\"semel\":1,", "{\"semel\":2,");
    let done = answer(
        "200 OK",
        "",
        "{\"semel\":2,\"changes\":[],\"done\":0,\"complete\":true}",
    );
    let format = "have the format 2, and this version knows 1";
    for (words, sent, may_be_given) in [
        (&FORGET[..], vec![of_tomorrow(plan())], false),
        (&FORGET[..], vec![plan(), done], true),
        (&RETRY[..], vec![of_tomorrow(plan())], false),
        (
            &RETRY[..],
            vec![plan(), of_tomorrow(run("ended", ""))],
            true,
        ),
        (
            &RETRY[..],
            vec![plan(), run("running", ""), of_tomorrow(run("ended", ""))],
            false,
        ),
        (&["keys", "list"], vec![of_tomorrow(list())], false),
    ] {
        let count = sent.len();
        let played = Played::new(sent);
        let ended = played.ask(words).code(3).says(format);
        let ended = ended.says("[worker-incompatible]");
        let says = ended.stderr.contains("may have been given");
        assert_eq!(says, may_be_given, "{words:?}: {ended:#?}");
        assert_eq!(ended.stdout, "", "{words:?}");
        assert_eq!(played.requests().len(), count, "{words:?}: nothing more");
    }
}

/// An empty list.
fn list() -> String {
    let list = "{\"semel\":1,\"items\":[],\"complete\":true}";
    answer("200 OK", "", list)
}

#[test]
fn settings_are_those_of_a_worker_or_none() {
    let words = ["config", "show", "--output", "json"];
    let played = Played::new(vec![answer("200 OK", "", "\u{1b}[2Jcleared")]);
    let strange = played.ask(&words).code(3).says("[worker-incompatible]");
    assert_eq!(strange.stdout, "");
    let settings = "{\"b\":1,\"a\":\"\u{9b}2J\"}";
    let played = Played::new(vec![answer("200 OK", "", settings)]);
    let shown = played.ask(&words).done().stdout;
    assert_eq!(shown, "{\"b\":1,\"a\":\"\\u009b2J\"}\n");
    let played = Played::new(vec![answer("200 OK", "", settings)]);
    let narrowed = [&words[..], &["--pipeline", "pay"]].concat();
    played.ask(&narrowed).code(2).says("--pipeline");
    assert!(played.requests().is_empty());
}

#[test]
fn a_key_in_quarantine_is_found_however_it_is_written() {
    let message = "{\"id\":\"00ff\",\"key\":\"json:1\",\"pipeline\":\"pay\",\"reason\":\"conflict\",\
                   \"since\":\"2026-11-21T10:33:00.000Z\"}";
    let list = format!("{{\"semel\":1,\"items\":[{message}],\"complete\":true}}");
    let played = Played::new(vec![
        answer("200 OK", "", &list),
        problem("403 Forbidden", "forbidden", "no"),
    ]);
    let drop = ["quarantine", "drop", "json:1.0", "--reason", "why", "--yes"];
    played.ask(&drop).code(2).says("[forbidden]");
    let requests = played.requests();
    assert!(requests[1].contains("{\"ids\":[\"00ff\"]}"), "{requests:?}");
}
