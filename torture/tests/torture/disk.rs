//! Full disks and read-only ones: a clear error, nothing half written, and completion once there is
//! room.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::Signal;
use torture::{Disk, Moments, Payment, Payments, Run, Site, readiness};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn an_embedded_store_on_a_full_disk_waits_for_room() {
    let scene = Scene::new("embedded:DISK/data", "charged.ndjson");
    scene.disk.fill(48 << 10);
    scene.waits_for_room("[store-full]");
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn an_embedded_store_on_a_full_disk_can_be_stopped_and_goes_on_later() {
    let scene = Scene::new("embedded:DISK/data", "charged.ndjson");
    scene.disk.fill(48 << 10);
    scene.stops_and_goes_on("[store-full]", 3);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_worker_whose_store_is_full_is_not_ready_until_there_is_room() {
    for (store, left) in [
        ("embedded:DISK/data", 48 << 10),
        ("sqlite:DISK/s.db", 400 << 10),
    ] {
        let scene = Scene::new(store, "charged.ndjson");
        let port = free_port::take().expect("a free port");
        let config = scene.site.text("semel.toml");
        let config =
            format!("{config}[admin]\nlisten = \"127.0.0.1:{port}\"\nready_after = \"2s\"\n");
        std::fs::write(scene.site.path("semel.toml"), config).expect("a configuration");
        scene.disk.fill(left);
        let run = scene.start();
        scene.wait_for("[store-full]");
        let mut answer = String::new();
        for _ in 0..600 {
            answer = readiness(port);
            if answer.starts_with("HTTP/1.1 503") && answer.contains("store-full") {
                break;
            }
            sleep(Duration::from_millis(10));
        }
        assert!(answer.contains("\"reason\":\"store-away\""), "{answer}");
        // That it can be read does not make it ready.
        sleep(Duration::from_secs(4));
        assert!(readiness(port).starts_with("HTTP/1.1 503"));
        scene.disk.free();
        let (status, _) = run.wait_at_most(LONGEST_RUN);
        let said = scene.said();
        assert_eq!(status.code(), Some(0), "{said}");
        assert_eq!(said.matches("the store is away").count(), 1, "{said}");
        assert_eq!(
            said.matches("the store answers again after").count(),
            1,
            "{said}"
        );
        scene.check_output();
    }
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn an_sqlite_store_on_a_full_disk_waits_for_room() {
    let scene = Scene::new("sqlite:DISK/s.db", "charged.ndjson");
    scene.disk.fill(400 << 10);
    scene.waits_for_room("[store-full]");
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn an_sqlite_store_on_a_full_disk_can_be_stopped_and_goes_on_later() {
    let scene = Scene::new("sqlite:DISK/s.db", "charged.ndjson");
    scene.disk.fill(400 << 10);
    scene.stops_and_goes_on("[store-full]", 3);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn an_output_file_on_a_full_disk_waits_for_room() {
    for store in ["embedded:data", "sqlite:s.db"] {
        let scene = Scene::new(store, "DISK/charged.ndjson");
        scene.disk.fill(64 << 10);
        scene.waits_for_room("no space left on the disk [target-away]");
    }
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn an_output_file_on_a_full_disk_can_be_stopped_and_goes_on_later() {
    for store in ["embedded:data", "sqlite:s.db"] {
        let scene = Scene::new(store, "DISK/charged.ndjson");
        scene.disk.fill(64 << 10);
        // Work given back is no failure: the summary counts it as `released`.
        scene.stops_and_goes_on("no space left on the disk [target-away]", 0);
    }
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_table_on_a_full_disk_waits_for_room_and_loses_no_row() {
    let scene = Scene::new("sqlite:DISK/s.db", "charged.ndjson");
    let config = scene.site.text("semel.toml").replace(
        "effect = { kind = \"file\"",
        "effect = { kind = \"sql\", statement = \"insert into charges values (:id, :amount)\" } #",
    );
    std::fs::write(scene.site.path("semel.toml"), config).expect("a configuration");
    let database = || Connection::open(scene.disk.path("s.db")).expect("a database");
    database()
        .execute_batch("create table charges (id, amount)")
        .expect("a table");
    scene.disk.fill(400 << 10);
    let run = scene.start();
    scene.wait_for("[store-full]");
    scene.disk.free();
    let (status, summary) = run.wait_at_most(LONGEST_RUN);
    assert_eq!(status.code(), Some(0), "{}", scene.said());
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("a summary");
    assert_eq!(
        (&summary["dead"], &summary["applied"]),
        (&0.into(), &scene.payments.distinct.len().into())
    );
    let mut charges = Vec::new();
    let database = database();
    let mut statement = database
        .prepare("select id, amount from charges")
        .expect("sql");
    let mut rows = statement.query([]).expect("rows");
    while let Some(row) = rows.next().expect("a row") {
        let amount: u32 = row.get(1).expect("an amount");
        charges.push(Payment {
            id: row.get(0).expect("an id"),
            amount: amount.into(),
        });
    }
    assert_eq!(charges.len(), scene.payments.distinct.len(), "each once");
    assert_eq!(
        charges.into_iter().collect::<BTreeSet<_>>(),
        scene.payments.distinct
    );
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_read_only_embedded_store_is_told_and_left_as_it_is() {
    read_only("embedded:DISK/data", "charged.ndjson", "[store-read-only]");
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_read_only_sqlite_store_is_told_and_left_as_it_is() {
    read_only("sqlite:DISK/s.db", "charged.ndjson", "[store-read-only]");
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_read_only_output_file_is_told_and_left_as_it_is() {
    read_only(
        "embedded:data",
        "DISK/charged.ndjson",
        "[target-unavailable]",
    );
}

/// Runs half of the input, then the disk turns read-only, then writable again.
fn read_only(store: &str, output: &str, code: &str) {
    let scene = Scene::new(store, output);
    let half: String = scene
        .payments
        .ndjson
        .lines()
        .take(500)
        .flat_map(|line| [line, "\n"])
        .collect();
    std::fs::write(scene.site.path("payments.ndjson"), half).expect("an input");
    let (status, _) = scene.start().wait_at_most(LONGEST_RUN);
    assert_eq!(status.code(), Some(0), "{}", scene.said());
    std::fs::write(scene.site.path("payments.ndjson"), &scene.payments.ndjson).expect("an input");
    let before = scene.output();

    scene.disk.make_read_only();
    let (status, stdout) = scene.start().wait_at_most(LONGEST_RUN);
    assert_eq!(
        (status.code(), stdout.as_str()),
        (Some(3), ""),
        "{}",
        scene.said()
    );
    assert!(scene.said().contains(code), "no {code} in {}", scene.said());
    assert_eq!(scene.output(), before);

    scene.disk.make_writable();
    let (status, _) = scene.start().wait_at_most(LONGEST_RUN);
    assert_eq!(status.code(), Some(0), "{}", scene.said());
    scene.check_output();
}

/// A pipeline into a file, with the store or the file on a small disk.
struct Scene {
    // First, since it is dropped first: the disk must not be in use by then.
    site: Site,
    disk: Disk,
    payments: Payments,
    output: String,
}

impl Scene {
    /// `DISK` stands for the disk in both.
    fn new(store: &str, output: &str) -> Self {
        let disk = Disk::mount(32 << 20);
        let payments = Payments::generate(4_000, &mut Moments::seeded(21));
        let at = |text: &str| text.replace("DISK", &disk.folder().display().to_string());
        let config = CONFIG
            .replace("STORE", &at(store))
            .replace("OUTPUT", &at(output));
        let site = Site::with(&[
            ("payments.ndjson", &payments.ndjson),
            ("semel.toml", &config),
        ]);
        let output = at(output);
        Self {
            site,
            disk,
            payments,
            output,
        }
    }

    fn start(&self) -> Run {
        self.site.start(&["run", "--output", "json"])
    }

    fn said(&self) -> String {
        self.site.text("stderr.log")
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.site.folder().join(&self.output)).unwrap_or_default()
    }

    fn wait_for(&self, text: &str) {
        for _ in 0..2_000 {
            if self.said().contains(text) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        panic!("waited twenty seconds for {text} in {}", self.said());
    }

    /// Plays one run: full, room, completed.
    fn waits_for_room(&self, code: &str) {
        let run = self.start();
        self.wait_for(code);
        sleep(Duration::from_millis(1_500));
        self.check_no_torn_line();
        assert!(
            self.said().lines().count() < 20,
            "an outage is one story: {}",
            self.said()
        );
        self.disk.free();
        let (status, stdout) = run.wait_at_most(LONGEST_RUN);
        assert_eq!(status.code(), Some(0), "{}", self.said());
        let summary: serde_json::Value = serde_json::from_str(&stdout).expect("a summary");
        assert_eq!(
            summary["applied"],
            self.payments.distinct.len(),
            "{summary}"
        );
        assert_eq!(summary["deliveries"], self.payments.deliveries, "{summary}");
        self.check_output();
    }

    /// Plays full, stopped, room, a second run, and no waiting for leases.
    fn stops_and_goes_on(&self, code: &str, exit: i32) {
        let run = self.start();
        self.wait_for(code);
        run.signal(Signal::TERM);
        let (status, _) = run.wait_at_most(LONGEST_RUN);
        assert_eq!(status.code(), Some(exit), "{}", self.said());
        self.check_no_torn_line();
        self.disk.free();
        let (status, stdout) = self.start().wait_at_most(LONGEST_RUN);
        assert_eq!(status.code(), Some(0), "{}", self.said());
        let summary: serde_json::Value = serde_json::from_str(&stdout).expect("a summary");
        assert_eq!(summary["deliveries"], self.payments.deliveries, "{summary}");
        for fate in ["dead", "in_doubt", "released", "quarantined"] {
            assert_eq!(summary[fate], 0, "{summary}");
        }
        // A store without room cannot note that a claim is given back; any other can.
        let is_given_back = exit == 0;
        assert!(!is_given_back || summary["takeovers"] == 0, "{summary}");
        self.check_output();
    }

    fn check_no_torn_line(&self) {
        let output = self.output();
        assert!(output.is_empty() || output.ends_with('\n'), "a torn line");
        assert!(
            output
                .lines()
                .all(|line| line.starts_with('{') && line.ends_with('}'))
        );
    }

    /// Checks that each payment is in the output exactly once.
    fn check_output(&self) {
        let output = self.output();
        let payments = output.lines().map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).expect("no torn line");
            let id = message["id"].as_str().expect("an id").to_owned();
            Payment {
                id,
                amount: message["amount"].as_u64().expect("an amount"),
            }
        });
        assert_eq!(
            output.lines().count(),
            self.payments.distinct.len(),
            "each once"
        );
        assert_eq!(payments.collect::<BTreeSet<_>>(), self.payments.distinct);
    }
}

/// Far beyond the time of a run, even with the lease of a claim that was not released.
const LONGEST_RUN: Duration = Duration::from_secs(50);

const CONFIG: &str = r#"
shutdown = "1s"

[store]
url = "STORE"

[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
fingerprint = ["json:/amount"]
batch = 100
lease = "3s"
effect = { kind = "file", path = "OUTPUT" }
"#;
