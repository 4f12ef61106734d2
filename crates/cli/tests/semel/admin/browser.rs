//! The console in a real Chromium, over a worker that runs: each page, each action, and a worker that ends meanwhile.

mod doubts;
mod driver;
mod exports;
mod pictures;
mod wholes;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use self::driver::Browser;
use super::Served;
use super::access::{config, listens, token};
use crate::operator::worker;
use crate::site::{Running, Site};

const PAGES: [(&str, &str); 11] = [
    ("/", "Overview"),
    ("/key", "Key"),
    ("/key?key=doubt-1", "Key"),
    ("/in-doubt", "In doubt"),
    ("/dead-letters", "Dead letters"),
    ("/quarantine", "Quarantine"),
    ("/runs", "Runs"),
    ("/window", "Window"),
    ("/producers", "Producers"),
    ("/store", "Store"),
    ("/audit", "Audit"),
];

/// A worker, and a browser that looks at it.
struct Desk {
    browser: Browser,
    served: Served,
}

impl Desk {
    fn new() -> Self {
        let served = Served::start("sqlite:s.db");
        let browser = Browser::start(&served.site);
        Self { browser, served }
    }

    fn open(&self, path: &str) {
        let address = format!("http://127.0.0.1:{}{path}", self.served.port);
        self.browser.open(&address);
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        let shown = self.browser.text();
        assert!(shown.contains(text), "no {text:?}: {shown}");
    }

    /// Finds nothing on the page that is shown that keeps people out of it.
    #[track_caller]
    fn is_usable(&self, axe: &str, what: &str) {
        is_usable(&self.browser, axe, what);
    }

    /// Confirms the plan that is shown.
    #[track_caller]
    fn confirm(&self, reason: &str) {
        self.browser.fill("#reason", reason);
        self.browser.submit("form.confirm button");
    }

    /// Gives an order about a key from its page.
    #[track_caller]
    fn order(&self, key: &str, button: &str) {
        self.open(&format!("/key?key={key}"));
        if button == "Extend…" {
            self.browser.fill("#window", "30d");
        }
        let mark = format!(
            "for (const it of document.querySelectorAll('.actions button')) if (it.textContent === '{button}') it.id = 'chosen';"
        );
        self.browser.run(&mark);
        self.browser.submit("#chosen");
        self.confirm("a drill");
        self.shows("1 of one change done");
    }

    fn state(&self, key: &str) -> Option<String> {
        self.served.site.state(key)
    }
}

#[test]
fn each_page_is_whole_quiet_and_usable_and_asks_nobody_else() {
    let desk = Desk::new();
    let axe = axe();
    let widths = [(1_280, false), (1_280, true), (360, false), (360, true)];
    let own = format!("http://127.0.0.1:{}/", desk.served.port);
    for (path, title) in PAGES {
        for (width, is_dark) in widths {
            desk.browser.looks(width, 900, is_dark);
            desk.open(path);
            assert_eq!(
                desk.browser.run("return document.title;"),
                format!("{title} · Semel")
            );
            let heading = "return document.querySelector('h1').textContent;";
            assert_eq!(desk.browser.run(heading), title);
            desk.is_usable(&axe, &format!("{path}, dark: {is_dark}, {width} pixels"));
        }
        // Paths, ids and keys can be long.
        desk.browser.run(
            "for (const it of document.querySelectorAll('code')) it.textContent += '/a-folder-of-some-length'.repeat(12);",
        );
        for width in [360, 2_560] {
            desk.browser.looks(width, 900, false);
            let wider = "return document.documentElement.scrollWidth - document.documentElement.clientWidth;";
            assert_eq!(
                desk.browser.run(wider),
                0,
                "{path} is wider than {width} pixels"
            );
        }
        assert_eq!(desk.browser.messages(), [""; 0], "{path}");
        let requests = desk.browser.requests();
        assert!(!requests.is_empty(), "{path}");
        for request in requests {
            assert!(request.starts_with(&own), "{path} asks {request}");
        }
    }
    desk.browser.looks(1_280, 900, false);
    for path in ["/dead-letters", "/quarantine"] {
        desk.open(path);
        desk.browser
            .run("document.querySelector('details').open = true;");
        let link = format!("a[href^='{path}/message?id=']");
        desk.browser.submit(&link);
        desk.shows("Payload");
        desk.is_usable(&axe, &format!("a message of {path}"));
    }
}

#[test]
fn counts_are_live_and_a_worker_that_ends_is_found_again() {
    let mut desk = Desk::new();
    desk.open("/");
    desk.browser
        .wait("document.querySelector('[data-member=in_doubt]').textContent === '2'");
    let applied = "document.querySelector('[data-member=replayed]').textContent !== '0'";
    let (_, input) = &mut desk.served.running;
    let mut again = |browser: &Browser| {
        input
            .write_all(b"{\"id\":\"by-worker\"}\n")
            .expect("a message");
        browser.run(&format!("return {applied};")) == true
    };
    crate::site::wait_for("a count that changes by itself", || again(&desk.browser));
    assert_eq!(desk.browser.messages(), [""; 0]);
    desk.browser.run("window.isSamePage = true;");
    let (child, _) = &mut desk.served.running;
    kill_process(Pid::from_child(child), Signal::KILL).expect("killed");
    child.wait().expect("ended");
    desk.browser.wait("!document.getElementById('gone').hidden");
    desk.shows("The worker has not answered since");
    desk.served.running = worker(&desk.served.site);
    desk.browser.wait("document.getElementById('gone').hidden");
    assert_eq!(
        desk.browser.run("return window.isSamePage;"),
        true,
        "it was not loaded again"
    );
}

#[test]
fn a_worker_that_hangs_is_noticed_and_found_again() {
    let desk = Desk::new();
    desk.open("/");
    desk.browser
        .wait("document.querySelector('[data-member=in_doubt]').textContent === '2'");
    desk.browser.run("window.isSamePage = true;");
    let (child, _) = &desk.served.running;
    let worker = Pid::from_child(child);
    // It keeps its connections, and says nothing.
    kill_process(worker, Signal::STOP).expect("stopped");
    desk.browser.wait("!document.getElementById('gone').hidden");
    desk.shows("The worker has not answered since");
    kill_process(worker, Signal::CONT).expect("continued");
    desk.browser.wait("document.getElementById('gone').hidden");
    assert_eq!(desk.browser.run("return window.isSamePage;"), true);
}

#[test]
fn a_pipeline_is_drained_paused_and_resumed_from_the_overview() {
    let desk = Desk::new();
    let axe = axe();
    let chip = "document.querySelector('[data-state=pay] .state')";
    let orders = [
        ("drain", "paused", "Ordered: drain"),
        ("pause", "paused", "Ordered: pause"),
        ("resume", "running", "What Semel adds"),
    ];
    for (order, state, text) in orders {
        desk.open("/");
        desk.browser
            .submit(&format!("form[action$='pipelines/{order}'] button"));
        desk.is_usable(&axe, &format!("the plan to {order}"));
        desk.confirm("INC-7");
        desk.shows("1 of one change done");
        desk.open("/");
        desk.browser
            .wait(&format!("{chip}.textContent === '{state}'"));
        // The order and what can follow it are drawn anew with the state.
        desk.browser
            .wait(&format!("document.body.innerText.includes('{text}')"));
        let again = format!("!document.querySelector(\"form[action$='pipelines/{order}']\")");
        desk.browser.wait(&again);
    }
    assert_eq!(desk.browser.messages(), [""; 0]);
    desk.open("/audit");
    desk.shows("INC-7");
}

#[test]
fn each_action_is_planned_confirmed_and_done() {
    let desk = Desk::new();
    let axe = axe();
    desk.open("/");
    desk.browser.fill("#find", "done-1");
    desk.browser.submit("form[role=search] button");
    desk.shows("What a duplicate meets now: replay");
    for button in ["Hold…", "Let go…", "Extend…", "Forget…"] {
        desk.order("by-worker", button);
    }
    assert_eq!(desk.state("by-worker"), None, "it is forgotten");
    desk.order("dead-1", "Release…");
    assert_eq!(desk.state("dead-1").as_deref(), Some("released"));

    desk.open("/in-doubt");
    desk.browser.click("thead input");
    desk.browser.click("#applied-one");
    desk.browser.fill("#outcome-one", "charged");
    desk.browser.submit("form[action$=resolve] button");
    desk.shows("Resolve 2 changes");
    desk.shows("it happened");
    desk.is_usable(&axe, "a plan");
    // Somebody else resolves one of them meanwhile.
    let words = [
        "in-doubt",
        "resolve",
        "doubt-1",
        "--abandon",
        "--yes",
        "--by",
        "eve",
        "--reason",
        "mine",
    ];
    desk.served.site.semel(&words).done();
    desk.confirm("at the provider");
    desk.shows("Something has changed since this was planned");
    desk.is_usable(&axe, "a plan that is stale");
    assert_eq!(
        desk.state("doubt-2").as_deref(),
        Some("in_doubt"),
        "nothing was done"
    );
    desk.confirm("at the provider");
    desk.shows("1 of one change done");
    desk.is_usable(&axe, "what was done");
    assert_eq!(desk.state("doubt-1").as_deref(), Some("dead"));
    assert_eq!(desk.state("doubt-2").as_deref(), Some("completed"));

    // The card is declined once more, and the other order is still in conflict.
    for (path, action, told) in [
        ("/dead-letters", "replay", "Foretold: 1 runs."),
        ("/quarantine", "release", "Foretold: 1 stays."),
    ] {
        desk.open(path);
        desk.browser.click("thead input");
        let button = format!("button[formaction$={action}]");
        desk.browser.submit(&button);
        desk.shows(told);
        desk.is_usable(&axe, "what is foretold");
        desk.confirm("the bank is back");
        desk.shows("0 of 1 done.");
        desk.is_usable(&axe, "what has come of it");
    }
    desk.open("/runs");
    desk.shows("the bank is back");
    desk.is_usable(&axe, "runs");
    desk.open("/dead-letters");
    desk.browser.submit("details form button:not([formaction])");
    desk.shows("Nothing is selected.");
    desk.is_usable(&axe, "a refusal");
    for (path, count) in [("/dead-letters", "1"), ("/quarantine", "1")] {
        desk.open(path);
        desk.browser.click("thead input");
        desk.browser.submit("details form button:not([formaction])");
        desk.confirm("a drill");
        desk.shows(&format!("{count} of one change done"));
        desk.open(path);
    }
    desk.shows("Nothing is in quarantine.");
    desk.open("/store");
    desk.browser.submit("form[action$=sweep] button");
    desk.confirm("a drill");
    desk.shows("1 of one change done");
    desk.open("/audit");
    for text in [
        "loopback",
        "eve",
        "at the provider",
        "a drill",
        "resolve-applied",
        "abandon",
        "forget",
    ] {
        desk.shows(text);
    }
    let errors = desk.browser.messages();
    // That a plan is stale, or is none, is an answer of its own kind, which the browser also writes down.
    let is_answer = |it: &String| it.contains("409") || it.contains("400");
    assert!(errors.iter().all(is_answer), "{errors:?}");
}

#[test]
fn whoever_needs_a_token_logs_in_and_out_and_no_longer_once_it_is_revoked() {
    let port = free_port::take().expect("a free port");
    let listen = format!("listen = \"0.0.0.0:{port}\"");
    let site = Site::with(&[("semel.toml", &config(&listen))]);
    let secret = token(&site, "ada --role viewer");
    let secret = secret.strip_prefix("Bearer ").expect("a token");
    let mut command = site.command();
    let mut running = Running::start(command.arg("run").stdin(Stdio::piped()));
    listens(&mut running, port);
    let browser = Browser::start(&site);
    browser.open(&format!("http://127.0.0.1:{port}/window"));
    for (token, text) in [
        ("semel_00", "This token is not known"),
        (secret, "A duplicate is known"),
    ] {
        browser.wait("document.title === 'Log in · Semel'");
        is_usable(&browser, &axe(), "the page to log in at");
        browser.fill("#token", token);
        browser.submit("main form button");
        assert!(browser.text().contains(text), "{}", browser.text());
    }
    assert!(browser.text().contains("ada, viewer"), "{}", browser.text());
    assert_eq!(
        browser.run("return document.cookie;"),
        "",
        "no script reads it"
    );
    browser.submit("header form button");
    browser.wait("document.title === 'Log in · Semel'");
    browser.fill("#token", secret);
    browser.submit("main form button");
    assert_eq!(browser.run("return document.title;"), "Overview · Semel");
    site.semel(&["token", "revoke", "ada", "--yes"]).done();
    // Its stream ends within a minute; whoever goes on is sent away at once.
    crate::site::wait_for("the end of the token", || {
        browser.open(&format!("http://127.0.0.1:{port}/in-doubt"));
        browser.run("return document.title;") == "Log in · Semel"
    });
    running.signal(Signal::TERM);
    running.wait().done();
}

/// Finds nothing on a page that keeps people out of it.
#[track_caller]
fn is_usable(browser: &Browser, axe: &str, what: &str) {
    // Its rules are text to the page, which it is not allowed to be by an address.
    browser.run(axe);
    let found = browser.run_to_end(
        "const found = await axe.run(document, { resultTypes: ['violations'] });\
         return found.violations.map((it) => it.id + ': ' + it.nodes.map((node) => node.html).join(' '));",
    );
    assert_eq!(found, serde_json::json!([]), "{what}");
}

/// The text of axe-core, which finds what keeps people out of a page.
fn axe() -> String {
    let folder = std::env::var("SEMEL_TEST_AXE").unwrap_or_else(|_| {
        panic!("SEMEL_TEST_AXE names no folder: run `cargo xtask examples`, which says where it is")
    });
    let script = std::fs::read_to_string(Path::new(&folder).join("axe.min.js"));
    script.expect("axe-core")
}
