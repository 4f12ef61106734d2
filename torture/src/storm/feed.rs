//! The messages of a storm, published bit by bit.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread;

use super::{LONGEST, MS, Storm, rounds};
use crate::moments::now;
use crate::payments::{Payments, Stream};
use crate::scaled;
use crate::worker::Site;

/// The messages that are still to be published, two bits of them a round. In the last round everything is published;
/// in a campaign long before, so that much of it waits.
pub(super) struct Feed {
    bits: VecDeque<String>,
    /// The number of new ones that make a bit when there are none left.
    more: usize,
    to: mpsc::SyncSender<String>,
}

impl Feed {
    /// The feed of these payments, and the receiver of its output.
    pub(super) fn of(payments: &Payments) -> (Self, mpsc::Receiver<String>) {
        let (to, end) = mpsc::sync_channel(2 * LONGEST * rounds());
        let lines: Vec<_> = payments.ndjson.lines().collect();
        let pieces = scaled(2 * (rounds() - 1), rounds());
        let bits = lines.chunks(lines.len().div_ceil(pieces));
        let feed = Self {
            bits: bits.map(|bit| bit.join("\n")).collect(),
            more: payments.distinct.len() / pieces / 2,
            to,
        };
        (feed, end)
    }

    /// Publishes the next bit, of new ones if there is none left and the storm `is_longer` than intended, and waits
    /// until a worker has begun with something.
    pub(super) fn next<S: Stream>(&mut self, storm: &mut Storm<S>, is_longer: bool, site: &Site) {
        if self.bits.is_empty() && scaled(is_longer, true) {
            let before = storm.stream.payments().ndjson.len();
            storm.stream.extend(self.more, &mut storm.moments);
            let news = &storm.stream.payments().ndjson[before..];
            self.bits.push_back(news.to_owned());
        }
        let said = site.said();
        if let Some(bit) = self.bits.pop_front() {
            self.to.send(bit).expect("somebody publishes");
        }
        wait_for_work(site, said);
    }
}

/// Waits until a worker has begun with something: killing a worker before that tests nothing. Not for ever, since
/// everything may be carried out.
fn wait_for_work(site: &Site, said: u64) {
    let begun = now();
    while begun.elapsed() < MS(10_000) {
        let news = site.said_behind(said);
        if ["granted", "completed", "replayed"]
            .iter()
            .any(|it| news.contains(&format!("\"decision\":\"{it}\"")))
        {
            return;
        }
        thread::sleep(MS(50));
    }
}
