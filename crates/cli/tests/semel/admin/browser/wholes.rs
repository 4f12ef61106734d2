//! Relays and producers in the console: their cards and pages, and the orders about them.

use rustix::process::Signal;

use super::driver::Browser;
use super::{axe, is_usable};
use crate::claims::server::{Request, ask};
use crate::ready::Admin;
use crate::site::{Site, wait_for};

/// Confirms the plan that is shown.
fn confirm(browser: &Browser, axe: &str, what: &str) {
    is_usable(browser, axe, &format!("the plan to {what}"));
    browser.fill("#reason", "INC-7");
    browser.submit("form.confirm button");
    let text = browser.text();
    assert!(text.contains("1 of one change done"), "{what}: {text}");
}

#[test]
fn a_relay_and_a_producer_are_shown_and_ordered() {
    let (admin, client) = (Admin::new(), free_port::take().expect("a free port"));
    let site = Site::with(&[(
        "semel.toml",
        &format!(
            "[store]\nurl = \"sqlite:s.db\"\n{}\
             [relays.out]\nstore = \"sqlite:s.db\"\nstream = \"orders\"\n\
             [relays.out.sink]\nkind = \"file\"\npath = \"out\"\n\
             [pipelines.take]\nkey = \"header:semel-id\"\nwindow = \"7d\"\n\
             [pipelines.take.source]\nkind = \"ingest\"\nlisten = \"127.0.0.1:{client}\"\npath = \"/in\"\n\
             [pipelines.take.effect]\nkind = \"file\"\npath = \"taken\"\n",
            admin.table()
        ),
    )]);
    site.database("s.db")
        .execute_batch("PRAGMA journal_mode = wal")
        .expect("a file");
    let migrate = ["store", "migrate", "--yes", "--store", "sqlite:s.db"];
    site.semel(&migrate).done();
    let running = site.start(&["run"]);
    let send = || {
        let headers = vec![
            ("semel-producer", "till-0a"),
            ("semel-epoch", "1"),
            ("semel-sequence", "1"),
            ("content-type", "application/x-ndjson"),
        ];
        let request = Request {
            headers,
            body: b"a sale",
            ..Request::get("/in").with_method("POST")
        };
        ask(client, &request).status
    };
    wait_for("a worker that runs", || {
        let (is_ready, said) = admin.ready();
        is_ready && said["relays"]["out"]["state"] == "running"
    });
    // Until its pipeline has begun, a source sends requests away.
    wait_for("a message that is taken", || send() == 200);
    wait_for("the effect", || site.path("taken").exists());

    let (browser, axe) = (Browser::start(&site), axe());
    let open = |path: &str| browser.open(&format!("http://{}{path}", admin.address()));
    for (order, state) in [("pause", "paused"), ("resume", "running")] {
        open("/");
        is_usable(&browser, &axe, "an overview with a relay");
        assert!(browser.text().contains("relay out"), "{}", browser.text());
        // Of the relay, not of the pipeline beside it.
        let form = format!("form[action$='pipelines/{order}']:has(input[value=out]) button");
        browser.submit(&form);
        confirm(&browser, &axe, order);
        wait_for(state, || admin.ready().1["relays"]["out"]["state"] == state);
    }
    for (order, state) in [("freeze", "frozen"), ("thaw", "open")] {
        open("/producers");
        is_usable(&browser, &axe, "producers");
        let text = browser.text();
        assert!(text.contains("till-0a"), "{text}");
        browser.submit(&format!("form[action$='producers/{order}'] button"));
        confirm(&browser, &axe, order);
        open("/producers");
        is_usable(&browser, &axe, "producers after an order");
        let shown = "return document.querySelector('tbody .state').textContent;";
        assert_eq!(browser.run(shown), state);
    }
    open("/audit");
    for entry in ["pause", "resume", "freeze", "thaw", "INC-7"] {
        assert!(
            browser.text().contains(entry),
            "{entry}: {}",
            browser.text()
        );
    }
    assert_eq!(browser.messages(), [""; 0]);
    running.signal(Signal::TERM);
    running.wait().done();
}
