//! A worker stopped beyond its lease and continued: fenced, and no second effect.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use torture::{Site, tell};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_worker_stopped_beyond_its_lease_is_fenced_and_the_effect_happens_once() {
    let site = Site::with(&[
        ("payments.ndjson", "{\"id\":\"pay-1\"}\n"),
        ("semel.toml", CONFIG),
        ("provider.sh", PROVIDER),
    ]);
    let zombie = site.start(&["run", "--output", "json"]);
    wait_for("the first call", || {
        site.text("calls.log").lines().count() == 1
    });
    zombie.signal(Signal::STOP);
    // The lease of 500 ms runs out while the worker stands still; its child's answer waits.
    sleep(Duration::from_millis(1_500));

    let (status, summary) = site.start(&["run", "--output", "json"]).wait();
    assert!(status.success(), "{}", site.text("stderr.log"));
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("a summary");
    assert_eq!(
        (&summary["applied"], &summary["takeovers"]),
        (&1.into(), &1.into()),
        "{summary}"
    );

    zombie.signal(Signal::CONT);
    let (status, summary) = zombie.wait();
    assert!(status.success(), "{}", site.text("stderr.log"));
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("a summary");
    assert_eq!(
        (&summary["applied"], &summary["replayed"]),
        (&0.into(), &1.into()),
        "{summary}"
    );

    assert!(
        site.text("stderr.log").contains("fenced:"),
        "the run says so: {}",
        site.text("stderr.log")
    );
    let calls = site.text("calls.log");
    let calls: Vec<_> = calls.lines().collect();
    assert_eq!(calls.len(), 2, "both workers called: {calls:?}");
    assert_eq!(calls[0], calls[1], "under one key");
    assert_eq!(
        site.text("effects.log").lines().count(),
        1,
        "and the effect happened once"
    );
    let figures = [
        ("operations", 1),
        ("workers stopped", 1),
        ("takeovers", 1),
        ("fenced", 1),
    ];
    tell("file, SQLite, a zombie", &figures);
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_there() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("waited a minute for {what}");
}

const CONFIG: &str = r#"
[store]
url = "sqlite:shop.db"

[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
lease = "500ms"

[pipelines.payments.effect]
kind = "exec"
command = ["sh", "provider.sh"]
class = "keyed"
provider_window = "24h"
"#;

/// A provider that honours keys: it logs every call, applies the effect for a new key only, and
/// takes a while to answer.
const PROVIDER: &str = r#"
echo "$SEMEL_IDEMPOTENCY_KEY" >> calls.log
if mkdir "key-$SEMEL_IDEMPOTENCY_KEY" 2>/dev/null; then
  echo "$SEMEL_KEY" >> effects.log
fi
sleep 0.7
"#;
