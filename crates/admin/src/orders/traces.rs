//! The places at which it can be seen what an order has done, for whoever is told of none of its results.

use super::plan::Work;
use crate::settings::RelayPlace;

/// Returns the place for work of this kind.
pub(super) fn place_of(work: &Work, relays: &[RelayPlace]) -> &'static str {
    let is_elsewhere = |name: &str| {
        let mut relays = relays.iter();
        relays.any(|it| *it.name == *name && it.elsewhere.is_some())
    };
    match work {
        // Their entries are in the database of the outbox.
        Work::Letters(..) => {
            "/v1/relays/dead-letters, and at the audit trail of the outbox's database (semel store audit --store URL),"
        }
        Work::Pipelines(all) => {
            let mut of_relays = all.iter().filter(|(it, _)| it.is_relay);
            if of_relays.any(|(it, _)| is_elsewhere(&it.pipeline)) {
                "/v1/pipelines and /v1/audit, and of relays at the audit trail of the outbox's database (semel store audit \
                 --store URL),"
            } else {
                "/v1/pipelines and /v1/audit"
            }
        }
        _ => "/v1/audit",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use semel_conformance::TestClock;
    use semel_core::{AnyStore, Timestamp};
    use semel_operate::pipelines::PipelineOrder;
    use semel_store_memory::MemoryStore;
    use tokio::sync::watch;

    use super::super::plan::Work;
    use super::place_of;
    use crate::settings::{OrderStore, RelayPlace};

    #[test]
    fn the_pause_of_a_relay_is_looked_for_in_its_own_database() {
        let (_store, elsewhere) = watch::channel(OrderStore::Unseen);
        let relay = |name: &str, elsewhere| RelayPlace {
            name: name.into(),
            stream: "orders".into(),
            outbox: None,
            elsewhere,
        };
        let relays = [relay("away", Some(elsewhere)), relay("here", None)];
        let place = |name: &str| {
            let planned = PipelineOrder::Pause.plan(name, None, Timestamp::EPOCH);
            let planned = planned.expect("a change").of_relay();
            let store = AnyStore::new(Arc::new(MemoryStore::new(Arc::new(TestClock::new()))));
            place_of(&Work::Pipelines(vec![(planned, store)]), &relays)
        };
        assert!(place("away").contains("outbox's database"));
        assert_eq!(place("here"), "/v1/pipelines and /v1/audit");
    }
}
