//! Metrics for Prometheus of a program's own calls, with the names that a worker has for them.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use semel::{Failure, Semel};
use semel_telemetry::{Build, Format, Metrics};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let metrics = Metrics::new(Build {
        version: env!("CARGO_PKG_VERSION"),
        commit: "unknown",
    });
    // Whatever the handle does counts under this name.
    let observer = metrics.pipeline("charge", "http");
    let builder = Semel::builder().observer(Arc::new(observer));
    let semel = builder.open("memory:").await?;

    let charge = semel.operation("charge").request(&4200);
    for _ in 0..3 {
        let _ = charge.once("payment-1", async |_| Ok(())).await?;
    }
    let declined = async |_| -> Result<(), _> { Err(Failure::dead("declined")) };
    let _ = charge.once("payment-2", declined).await;
    let other = semel.operation("charge").request(&100);
    let _ = other.once("payment-1", async |_| Ok(())).await;

    // Answer `GET /metrics` with this text. A scrape reads counters in memory and calls no store.
    let text = metrics.text(Format::Prometheus);
    let shown = ["decisions_total", "duplicates_total", "effects_total"];
    let is_shown = |line: &&str| {
        let counts = shown
            .iter()
            .any(|it| line.starts_with(&format!("semel_{it}{{")));
        counts && !line.ends_with(" 0")
    };
    let mut lines: Vec<_> = text.lines().filter(is_shown).collect();
    lines.sort_unstable();
    for line in lines {
        println!("{line}");
    }
    println!("{}", Format::Prometheus.content_type());
    Ok(())
}

// prints:
// semel_decisions_total{pipeline="charge",decision="conflict"} 1
// semel_decisions_total{pipeline="charge",decision="granted"} 2
// semel_decisions_total{pipeline="charge",decision="replay"} 2
// semel_duplicates_total{pipeline="charge",kind="unknown"} 2
// semel_effects_total{pipeline="charge",effect="http",verdict="applied"} 1
// semel_effects_total{pipeline="charge",effect="http",verdict="failed"} 1
// text/plain; version=0.0.4; charset=utf-8
