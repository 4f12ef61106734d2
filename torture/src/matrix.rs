//! Each broker with each durable store: one storm, the same for all of them.

use crate::{Broker, Crew, Kind, Shop, Storm, scaled};

/// A durable store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// A PostgreSQL server.
    Postgres,
    /// A Redis server with `appendfsync always`.
    Redis,
    /// The embedded one, whose worker is alone.
    Embedded,
}

/// Runs a storm over workers of `broker` with a store of that kind, and checks that each payment had each of its
/// effects once, that each dead letter and each doubt is listed, and that it was a storm.
///
/// # Panics
///
/// If it is not so.
#[expect(clippy::print_stdout, reason = "the figures of a run")]
pub fn happens_once(broker: &mut dyn Broker, keep: Keep, seed: u64) {
    let (mut shop, crew, kept_in) = match keep {
        Keep::Postgres => (Shop::in_postgres(), Crew::Three, "PostgreSQL"),
        Keep::Redis => (Shop::in_redis(), Crew::Three, "Redis"),
        Keep::Embedded => (Shop::embedded(), Crew::One, "embedded"),
    };
    // No other worker can fence the only one, or get its deliveries.
    let mut happened = vec![Kind::Takeover];
    if crew == Crew::Three {
        happened.push(Kind::Fenced);
        happened.extend(broker.is_revoking().then_some(Kind::Revoked));
    }
    let name = format!("{}, {kept_in}", broker.name());
    let readers = shop.readers();
    let site = shop.site(broker);
    let mut storm = Storm::seeded(seed, scaled(2_000, 195_000), crew);
    let mut kill_store = || shop.kill_store();
    let figures = storm.over(broker, &mut kill_store, &site, readers, &happened);
    let listed = shop.assert_once(&storm.stream, &site);
    println!(
        "{name}: {figures}; {} refused, each a dead letter, {} in doubt, listed",
        listed.dead, listed.doubts
    );
    figures.were_a_storm(&happened);
    let more = [("effects refused", listed.dead), ("doubts", listed.doubts)];
    figures.tell(&name, &happened, &more);
}
