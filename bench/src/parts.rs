//! Parts of the worker on their own: reading a file, calling a child line by line.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_broker_file::{FileSource, Options};
use semel_core::port::source::{Acknowledgement, Fetched, Source};
use semel_core::{Claim, ClaimId, Fate, FencingToken, Key, Operation, Scope, Timestamp};
use semel_engine::effect::{Call, Effect, Verdict};
use semel_worker::effect::JsonlEffect;
use semel_worker::effect::jsonl::Settings;

use crate::figures::{Figures, timed};

/// Lines per second of a file, acknowledged.
pub(crate) fn source() -> crate::Outcome {
    let line = format!("{{\"id\":\"{}\"}}\n", "x".repeat(89));
    let file = tempfile::NamedTempFile::new_in(".")?;
    std::fs::write(file.path(), line.repeat(LINES))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let mut rates = Vec::new();
    for _ in 0..5 {
        let (taken, read) = timed(|| runtime.block_on(read_all(file.path())));
        if read? != LINES {
            return Err("lines are missing".into());
        }
        rates.push(rate(LINES, taken));
    }
    println!(
        "file source, lines of {} bytes: {} lines/s",
        line.len(),
        Figures::of(rates)
    );
    Ok(())
}

async fn read_all(path: &std::path::Path) -> semel_core::Result<usize> {
    let mut source = FileSource::open(path, Options::default()).await?;
    let mut lines = 0;
    while let Fetched::Deliveries(deliveries) = source.fetch(1_000).await? {
        lines += deliveries.len();
        let done = deliveries
            .iter()
            .map(|delivery| Acknowledgement::new(delivery.id, Fate::Applied));
        source.acknowledge(&done.collect::<Vec<_>>()).await?;
    }
    Ok(lines)
}

/// Calls per second of a Python child, a thousand in flight.
pub(crate) fn jsonl() -> crate::Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let mut rates = Vec::new();
    for _ in 0..5 {
        let (taken, called) = timed(|| runtime.block_on(call_all()));
        called?;
        rates.push(rate(CALLS, taken));
    }
    println!(
        "exec, protocol jsonl, Python child, 1,000 in flight: {} calls/s",
        Figures::of(rates)
    );
    Ok(())
}

async fn call_all() -> Result<(), Box<dyn std::error::Error>> {
    let command = ["python3", "-u", "-c", ECHO].map(str::to_owned).to_vec();
    let mut settings = Settings::new(command);
    settings.timeout = Duration::from_secs(60);
    let effect = Arc::new(JsonlEffect::new(settings)?);
    let call = call()?;
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (effect, call) = (Arc::clone(&effect), call.clone());
        workers.spawn(async move {
            for _ in 0..CALLS / IN_FLIGHT {
                if !matches!(effect.call(call.clone()).await, Verdict::Done(_)) {
                    return false;
                }
            }
            true
        });
    }
    while let Some(all_done) = workers.join_next().await {
        if !all_done? {
            return Err("a call failed".into());
        }
    }
    effect.close().await;
    Ok(())
}

fn call() -> Result<Call, Box<dyn std::error::Error>> {
    let claim = Claim {
        operation: Operation::new(Scope::new("", "bench")?, Key::parse("pay-1")?),
        claim_id: ClaimId::from_u128(1),
        token: FencingToken::new(1),
        lease_until: Timestamp::EPOCH,
        attempt: 1,
        takeover: false,
        resumed: false,
        formerly_expired: false,
        possible_repeat: false,
        first_started_at: None,
    };
    let payload =
        Bytes::from_static(b"{\"payment\":\"pay-1\",\"amount\":100,\"currency\":\"EUR\"}");
    Ok(Call {
        claim,
        payload,
        headers: Vec::new(),
        coordinates: "bench:1".into(),
        span: None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn rate(count: usize, taken: Duration) -> f64 {
    count as f64 / taken.as_secs_f64()
}

const LINES: usize = 2_000_000;
const CALLS: usize = 200_000;
const IN_FLIGHT: usize = 1_000;
/// Answers each request as soon as it is read.
const ECHO: &str = "import sys
for line in sys.stdin:
    sys.stdout.write('{\"id\":' + line[6:line.index(',')] + ',\"status\":\"done\"}\\n')";
