//! The interface of a broker for a storm.

use std::thread::sleep;
use std::time::Duration;

use crate::scaled;
use crate::worker::Site;

/// A broker that can be killed. Each reader has a name of its own, and gets every message.
pub trait Broker {
    /// The name of the broker.
    fn name(&self) -> &'static str;

    /// Returns whether it tells a worker about deliveries that it takes away.
    fn is_revoking(&self) -> bool;

    /// Makes a reader of that name, if the broker has to know it beforehand, and returns the source of the pipeline
    /// of the same name.
    fn reader(&mut self, name: &str) -> String;

    /// A publisher with a client of its own.
    fn publisher(&self) -> Box<dyn Publish>;

    /// Kills it as `kill -9` does, and starts it again on the data it has written.
    fn kill_and_restart(&mut self);

    /// The time for which a worker stands still until others have taken over its work: longer than every lease and
    /// session timeout, and in a campaign so much longer that they have begun with it.
    fn stopped_for(&self) -> Duration {
        scaled(Duration::from_millis(4_500), Duration::from_secs(7))
    }

    /// Closes every connection, and returns whether the broker can: one that takes deliveries away only by that
    /// means is seldom killed often enough.
    fn close_connections(&self) -> bool {
        false
    }

    /// The number of messages that a reader has still to acknowledge, as the broker counts them; `None` while it
    /// does not know.
    fn left(&self, reader: &str) -> Option<u64>;

    /// The state of a reader, in the words of the broker.
    fn stands(&self, reader: &str) -> String;

    /// Waits until a reader has acknowledged everything.
    ///
    /// # Panics
    ///
    /// If it makes no progress for a minute, with the workers' output at `site`.
    fn wait_until_acknowledged(&self, reader: &str, site: &Site) {
        let (mut least, mut patience) = (u64::MAX, PATIENCE);
        while patience > 0 {
            match self.left(reader) {
                Some(0) => return,
                Some(left) if left < least => (least, patience) = (left, PATIENCE),
                _ => patience -= 1,
            }
            sleep(Duration::from_secs(2));
        }
        let (stands, said) = (self.stands(reader), site.last_words());
        panic!("{reader} has {least} messages left and gets no further:\n{stands}\n{said}");
    }
}

/// Publishes while the broker comes and goes.
pub trait Publish: Send {
    /// Publishes each line at least once, sooner or later.
    fn publish(&mut self, lines: &[&str]);

    /// Waits until everything is confirmed.
    fn finish(self: Box<Self>);
}

/// The number of looks at a reader that makes no progress.
const PATIENCE: u32 = 30;
