//! What a storm wants of a broker.

use std::thread::sleep;
use std::time::Duration;

use crate::scaled;
use crate::worker::Site;

/// A broker that can be killed. Readers are told apart by their names, and each gets every message.
pub trait Broker {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Whether it tells a worker of deliveries that it takes away.
    fn is_revoking(&self) -> bool;

    /// Makes a reader of that name, where the broker wants to know it beforehand, and says what its pipeline of
    /// the same name has for a source.
    fn reader(&mut self, name: &str) -> String;

    /// Whoever publishes, by means of its own.
    fn publisher(&self) -> Box<dyn Publish>;

    /// Kills it as `kill -9` does, and starts it again on what it has written.
    fn kill_and_restart(&mut self);

    /// How long a worker stands still until others have come to what it had in hand: longer than every lease and
    /// session timeout, and in a campaign so much longer that they are at work on it.
    fn stopped_for(&self) -> Duration {
        scaled(Duration::from_millis(4_500), Duration::from_secs(7))
    }

    /// Has it close every connection, and says whether it can: one that speaks of deliveries taken away by no other
    /// means than that is seldom killed often enough.
    fn close_connections(&self) -> bool {
        false
    }

    /// How many messages a reader has still to acknowledge, by the word of the broker; `None` while it does not
    /// know.
    fn left(&self, reader: &str) -> Option<u64>;

    /// How a reader stands, in the words of the broker.
    fn stands(&self, reader: &str) -> String;

    /// Waits until a reader has acknowledged everything.
    ///
    /// # Panics
    ///
    /// If it gets no further for a minute, with what the workers at `site` said.
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
    /// Has each line published at least once, sooner or later.
    fn publish(&mut self, lines: &[&str]);

    /// Waits until everything is confirmed.
    fn finish(self: Box<Self>);
}

/// How often a reader is asked that gets no further.
const PATIENCE: u32 = 30;
