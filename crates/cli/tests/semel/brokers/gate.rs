//! A sequence gate before a real broker: each number of a producer runs once, whatever the broker repeats, under
//! whatever id, and through kills of the worker.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use semel_core::ByteString;
use semel_core::port::sink::Publication;
use semel_core::producer::headers;

use super::producer::{arguments, rows, run, show};
use super::publish::Target;
use super::{there, until};
use crate::site::{Site, wait_for};

/// The tests of one kind of broker.
macro_rules! gated {
    ($name:ident, $place:ty, $store:literal) => {
        #[test]
        fn $name() {
            super::gate::what_comes_again_under_other_ids_runs_once::<$place>($store);
        }
    };
}

#[cfg(feature = "kafka")]
gated!(kafka, crate::brokers::kafka::Topic, "embedded:./store");
#[cfg(feature = "nats")]
gated!(nats, crate::brokers::nats::Stream, "sqlite:semel.db");
#[cfg(feature = "amqp")]
gated!(amqp, crate::brokers::amqp::Queue, "embedded:./store");

const ROWS: usize = 200;

/// The key is the id of the message, so that the record of no key tells of a repeat.
fn site(source: &str, store: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"{store}\"\n[pipelines.payments]\nkey = \"header:semel-id\"\nbatch = 10\nlease = \"2s\"\n\
         window = \"30d\"\neffect = {{ kind = \"file\", path = \"out\" }}\n[pipelines.payments.source]\n\
         producer = \"header:semel-producer\"\n{source}"
    );
    Site::with(&[("semel.toml", &config)])
}

/// A message with these numbers, under an id that nobody has seen.
fn numbered(producer: &str, epoch: u64, sequence: usize) -> Publication {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let id = format!("again-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let all = [
        (headers::ID, id.clone()),
        (headers::PRODUCER, producer.to_owned()),
        (headers::EPOCH, epoch.to_string()),
        (headers::SEQUENCE, sequence.to_string()),
    ];
    let all = all.into_iter();
    Publication {
        id: id.into(),
        order: None,
        payload: format!("{{\"sequence\":{sequence}}}").into(),
        headers: all
            .map(|(name, value)| (ByteString::from_static(name), value.into()))
            .collect(),
    }
}

fn what_comes_again_under_other_ids_runs_once<T: Target>(store: &str) {
    const PRODUCER: &str = "sqlite:producer.db";
    let target = T::new();
    let site = site(&target.source(&T::address()), store);
    // Two openings of the producer; what the first has sent comes again before and behind what the second sends.
    let publish = |ids: Range<usize>| {
        site.write("rows.ndjson", rows(ids));
        let with = ["--store", PRODUCER, "rows.ndjson"];
        run(&site, &arguments(&target, &T::address(), &with)).done();
    };
    publish(0..ROWS / 2);
    let id = show(&site, PRODUCER)["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let again = || {
        (1..=ROWS / 2)
            .map(|it| numbered(&id, 1, it))
            .collect::<Vec<_>>()
    };
    target.send(&again());
    publish(ROWS / 2..ROWS);
    target.send(&again());
    if T::SYSTEM == "rabbitmq" {
        // Whoever had them, and is gone, leaves them in any order, and more of them than are handed over at once.
        assert_eq!(target.read().len(), 2 * ROWS);
    }

    for kill in 1..=2 {
        let running = site.start(&["run"]);
        wait_for("some lines", || there(&site) >= kill * 40);
        running.signal(Signal::KILL);
        running.wait();
    }
    assert!(there(&site) < ROWS, "all were run before the last kill");
    let summary = until(&site, ROWS, || {});
    assert_eq!(summary.count("quarantined"), 0, "{summary:?}");
    let done = site.sorted_lines("out");
    let once: BTreeSet<_> = done.iter().collect();
    assert_eq!((done.len(), once.len()), (ROWS, ROWS), "{done:?}");

    // What is behind a gap waits until that is closed.
    target.send(&[2, 3].map(|it| numbered(&id, 2, ROWS + it)));
    let summary = until(&site, ROWS + 3, || {
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(there(&site), ROWS, "what is behind a gap ran");
        target.send(&[numbered(&id, 2, ROWS + 1)]);
    });
    assert_eq!(summary.count("applied"), 3, "{summary:?}");
}
