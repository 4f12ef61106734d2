//! Messages that an order lets run again while the file of a certificate is missing. Nobody listens where the brokers are.

use rustix::process::Signal;

use super::{Papers, shown};
use crate::ready::Admin;
use crate::site::{Running, Site, wait_for};

/// The members of a source or a sink whose client reads the authority when it is made.
fn encrypted(site: &Site) -> String {
    let papers = Papers::new();
    let authority = std::fs::read(&papers.authority.path).expect("an authority");
    site.write("ca.pem", authority);
    format!(
        "kind = \"kafka\"\nbrokers = \"127.0.0.1:1\"\ntopic = \"t\"\n\
         properties = {{ \"security.protocol\" = \"ssl\", \"ssl.ca.location\" = \"{}\" }}\n",
        shown(&site.path("ca.pem"))
    )
}

/// The words of librdkafka about an authority that it cannot read.
const UNREADABLE: &str = "ssl.ca.location failed";

/// Gives an order, and waits until the worker has a line with this.
#[track_caller]
fn order(site: &Site, running: &mut Running, verb: &str, name: &str, said: &str) {
    site.semel(&["pipelines", verb, name, "--yes"]).done();
    wait_for(said, || running.stderr().contains(said));
}

#[test]
fn a_relay_whose_sink_cannot_be_made_is_resumed_once_it_can() {
    let site = Site::new();
    let relay =
        "[relays.out]\nstore = \"sqlite:shop.db\"\nstream = \"orders\"\n[relays.out.sink]\n";
    site.write("semel.toml", relay.to_owned() + &encrypted(&site));
    site.database("shop.db")
        .execute_batch("PRAGMA journal_mode = wal")
        .expect("a shop");
    let migrate = ["store", "migrate", "--yes", "--store", "sqlite:shop.db"];
    site.semel(&migrate).done();
    let mut running = site.start(&["run"]);
    let begun = |running: &mut Running| {
        let said = running.stderr();
        said.matches("publishes 32 of 32 partitions").count()
    };
    wait_for("the relay", || begun(&mut running) == 1);
    order(&site, &mut running, "pause", "out", "out: paused");
    std::fs::rename(site.path("ca.pem"), site.path("elsewhere")).expect("moved");
    order(&site, &mut running, "resume", "out", UNREADABLE);
    assert!(running.is_running(), "it is told, and tried again");
    assert_eq!(begun(&mut running), 1);
    // It can be paused meanwhile.
    site.semel(&["pipelines", "pause", "out", "--yes"]).done();
    wait_for("the second pause", || {
        running.stderr().matches("out: paused").count() == 2
    });
    site.semel(&["pipelines", "resume", "out", "--yes"]).done();
    std::fs::rename(site.path("elsewhere"), site.path("ca.pem")).expect("back");
    wait_for("the relay", || begun(&mut running) == 2);
    running.signal(Signal::TERM);
    running.wait().done();
}

#[test]
fn a_pipeline_whose_source_cannot_be_made_ends_no_worker_and_is_not_paused_in_the_next_one() {
    let site = Site::new();
    let pipeline = "[store]\nurl = \"sqlite:s.db\"\n[pipelines.pay]\nkey = \"json:/id\"\nwindow = \"30d\"\n\
                    effect = { kind = \"file\", path = \"out\" }\n[pipelines.pay.source]\ngroup = \"g\"\n";
    let admin = Admin::new();
    let config = admin.table() + pipeline + &encrypted(&site);
    site.write("semel.toml", config);
    let mut running = site.start(&["run"]);
    wait_for("a store", || site.path("s.db").exists());
    wait_for("the order", || {
        let paused = site.semel(&["pipelines", "pause", "pay", "--yes"]);
        paused.status.success()
    });
    wait_for("the pause", || running.stderr().contains("pay: paused"));
    std::fs::rename(site.path("ca.pem"), site.path("elsewhere")).expect("moved");
    site.semel(&["pipelines", "resume", "pay", "--yes"]).done();
    wait_for("the reason", || running.stderr().contains(UNREADABLE));
    running.signal(Signal::TERM);
    running.wait().done();

    // The order was taken back, whatever became of the run.
    std::fs::rename(site.path("elsewhere"), site.path("ca.pem")).expect("back");
    let listed = site
        .semel(&["pipelines", "list", "--output", "jsonl"])
        .done();
    assert!(listed.stdout.contains("\"order\":\"run\""), "{listed:#?}");
    let mut running = site.start(&["run"]);
    wait_for("the pipeline", || {
        assert!(running.is_running(), "{}", running.stderr());
        let said = admin.ready().1;
        let state = said["pipelines"]["pay"]["state"].as_str();
        state.is_some_and(|it| it != "starting")
    });
    assert!(!running.stderr().contains("paused"), "{}", running.stderr());
    running.signal(Signal::TERM);
    running.wait().done();
}
