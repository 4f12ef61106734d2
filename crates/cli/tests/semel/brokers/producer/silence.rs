//! `semel publish` to a NATS that does not answer.

use std::thread::sleep;
use std::time::Duration;

use super::{arguments, object, rows, seen_once, show, start};
use crate::brokers::nats::Stream;
use crate::brokers::publish::Target;
use crate::brokers::{Place, Way};
use crate::site::{Site, wait_for};

#[test]
fn it_is_told_once_however_many_calls_wait_and_nothing_is_lost() {
    let (target, site) = (Stream::new(), Site::new());
    let (way, address) = Way::to(&Stream::address());
    let count = 8_000;
    site.write("rows.ndjson", rows(0..count));
    let publish = arguments(
        &target,
        &address,
        &["--store", "embedded:store", "rows.ndjson"],
    );
    let mut running = start(&site, &publish);
    wait_for("its first messages", || {
        let confirmed = show(&site, "embedded:store")["streams"][0]["confirmed"].as_u64();
        confirmed.is_some_and(|it| it > 0)
    });
    way.hold_answers();
    wait_for("a word about it", || {
        running.stderr().contains(SILENT) || !running.is_running()
    });
    // Each call is given up after some seconds, and the next one waits in vain as well.
    sleep(SEVERAL_CALLS);
    way.heal();
    let ended = running.wait().done();
    let said = &ended.stderr;
    assert_eq!(said.matches(SILENT).count(), 1, "{said}");
    assert_eq!(object(&ended)["published"], count, "{said}");
    seen_once(&target.read(), count);
}

const SILENT: &str = "has not answered for";
const SEVERAL_CALLS: Duration = Duration::from_secs(10);
