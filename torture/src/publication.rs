//! `semel publish` between a file and a broker: killed again and again, and so is the broker. Whoever reads the broker
//! by ids sees each row once, and those of a key in order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::outbox::{Destination, Target};
use crate::{Moments, Site, scaled, tell};

/// Publishes a file while the publisher is killed and its broker as well, until it comes to its end.
///
/// # Panics
///
/// If a row is missing, or out of order, or too many come twice, or too little has happened.
#[expect(clippy::print_stdout, reason = "the figures of a run")]
pub fn a_file_is_published_whole(to: Target, store: &str, seed: u64) {
    let runtime = Runtime::new().expect("a runtime");
    let inside = runtime.enter();
    let mut destination = Destination::start(to);
    drop(inside);
    let name = format!("publish, {}, {store}", to.name());
    let (parts, rows_of_part) = (scaled(3, 40), scaled(4_000, 5_000));
    let rows = parts * rows_of_part;
    let site = Site::with(&[]);
    let (url, place) = destination.typed();
    let store = format!("{store}:./store");
    let mut moments = Moments::seeded(seed);
    let (mut killed, mut restarts) = (0, 0);
    for part in 0..parts {
        let file = format!("part-{part}.ndjson");
        let text = lines(part * rows_of_part..(part + 1) * rows_of_part);
        std::fs::write(site.path(&file), text).expect("a file is written");
        let arguments = [
            "publish",
            "--to",
            &url,
            "--stream",
            &place,
            "--store",
            &store,
            "--order",
            "json:/account",
            "--output",
            "json",
            &file,
        ];
        for attempt in 0.. {
            let run = site.start(&arguments);
            if attempt == 0 && part % 3 == 1 {
                sleep(Duration::from_millis(moments.below(300)));
                assert!(destination.kill_and_restart(), "{name}: a broker");
                restarts += 1;
            }
            if attempt < BLOWS {
                let moment = Duration::from_millis(40 + moments.below(400));
                killed += u64::from(run.kill_after(moment));
                continue;
            }
            let (status, stdout) = run.wait_at_most(PATIENCE);
            assert!(status.success(), "{name}: {status}: {}", site.last_words());
            let summary: serde_json::Value = serde_json::from_str(&stdout).expect("a summary");
            assert_eq!(summary["kept"], 0, "{name}: {summary}");
            break;
        }
    }
    let published = destination.labels().expect("a broker");
    let repeats = judged(&name, &published, rows);
    let blows = killed + restarts;
    println!(
        "{name}: {rows} rows, {killed} publishers killed at work, {restarts} restarts of a killed broker; {repeats} \
         repeats at the broker, none for a reader by ids"
    );
    assert!(
        repeats <= MOST_OF_A_BLOW * blows,
        "{name}: {repeats} repeats of {blows} blows"
    );
    assert!(
        repeats == 0 || !destination.drops_repeats(),
        "{name}: a row came under two ids"
    );
    assert!(
        killed > 1 && restarts > 0,
        "{name}: too little has happened"
    );
    tell(
        &name,
        &[
            ("operations", rows),
            ("workers killed", killed),
            ("brokers killed", restarts),
            ("published again", repeats),
        ],
    );
}

/// Rows that have the members of an order.
fn lines(numbers: Range<u64>) -> String {
    let row = |number: u64| {
        let account = number * 7 % ACCOUNTS;
        format!("{{\"label\":\"{number}\",\"account\":\"k{account}\",\"amount\":1}}\n")
    };
    numbers.map(row).collect()
}

/// Checks the labels of what was published, in order; returns the number of repeats.
fn judged(name: &str, published: &[(String, String)], rows: u64) -> u64 {
    let (mut seen, mut last) = (BTreeSet::new(), BTreeMap::new());
    let mut repeats = 0;
    for (label, account) in published {
        let number: u64 = label.parse().expect("a number");
        if !seen.insert(number) {
            repeats += 1;
            continue;
        }
        let before = last.insert(account, number);
        assert!(
            before.is_none_or(|before| before < number),
            "{name}: row {number} of {account} came after {before:?}"
        );
    }
    let missing: Vec<_> = (0..rows)
        .filter(|row| !seen.contains(row))
        .take(10)
        .collect();
    assert!(
        missing.is_empty(),
        "{name}: rows are missing, as {missing:?}"
    );
    assert_eq!(seen.len() as u64, rows, "{name}: rows that nobody sent");
    repeats
}

const PATIENCE: Duration = Duration::from_secs(120);
/// The most messages that one blow has published again.
const MOST_OF_A_BLOW: u64 = 5_000;
const ACCOUNTS: u64 = 400;
/// The times that each part is killed.
const BLOWS: u32 = 2;
