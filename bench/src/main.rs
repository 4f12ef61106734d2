//! `cargo xtask bench [NAME…]`: Semel beside the solutions that people use today, both sides in one
//! run, taking turns. The figures are those of one machine; the ratio and its spread count.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its figures"
)]

mod claims;
mod console;
mod dedup;
mod embedded;
mod figures;
mod gateway;
mod http;
mod ingest;
mod kafka;
mod keys;
mod load;
mod mysql;
mod nats;
mod operate;
mod pairs;
mod parts;
mod postgres;
mod process;
mod publish;
mod rabbitmq;
mod redis;
mod restore;
mod rivals;
mod sql;
mod streams;
mod telemetry;
mod wrk;

use std::process::ExitCode;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A benchmark by its name.
type Bench = (&'static str, fn() -> Outcome);

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(served) = http::serve(&wanted) {
        return ended("http", served);
    }
    let known: [Bench; 23] = [
        ("embedded", embedded::rate),
        ("memory", embedded::memory),
        ("sql", sql::rate),
        ("source", parts::source),
        ("jsonl", parts::jsonl),
        ("dedup", dedup::time),
        ("operate", operate::beside),
        ("console", console::beside),
        ("postgres", postgres::rate),
        ("redis", redis::rate),
        ("mysql", mysql::rate),
        ("kafka", kafka::rate),
        ("restore", restore::rate),
        ("kafka-streams", streams::rate),
        ("telemetry-sql", telemetry::cost_of_sql),
        ("telemetry-redis", telemetry::cost_of_redis),
        ("telemetry-kafka", telemetry::cost_of_kafka),
        ("gateway", gateway::rate),
        ("claims", claims::rate),
        ("publish", publish::rate),
        ("ingest", ingest::rate),
        ("nats", nats::rate),
        ("rabbitmq", rabbitmq::rate),
    ];
    for name in &wanted {
        if !known.iter().any(|(known, _)| known == name) {
            let names = known.map(|(name, _)| name).join(", ");
            eprintln!("bench: no `{name}`; known are {names}");
            return ExitCode::from(2);
        }
    }
    println!(
        "fdatasync of 4 KiB appended: median {:.0} us",
        figures::sync_micros()
    );
    for (name, bench) in known {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let code = ended(name, bench());
        if code != ExitCode::SUCCESS {
            return code;
        }
    }
    ExitCode::SUCCESS
}

/// The exit code of a benchmark, whose error is told.
fn ended(name: &str, outcome: Outcome) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    // A driver keeps the server's own words behind its error.
    let causes = std::iter::successors(Some(&*error), |error| error.source());
    let words: Vec<String> = causes.map(ToString::to_string).collect();
    eprintln!("bench {name}: {}", words.join(": "));
    ExitCode::from(3)
}
