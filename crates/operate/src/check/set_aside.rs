//! Counts what of a pipeline waits for a person, and says since when.

use std::ops::ControlFlow;
use std::sync::Arc;

use semel_core::port::store::{ListQuery, Store};
use semel_core::{AnyStore, Result, Scope, StateKind, Timestamp};
use semel_worker::replay::Kind;
use serde::Serialize;

use crate::keys::since;
use crate::paging::for_each_page;
use crate::parked::{Filter, Names, Search};
use crate::value::Time;

/// The messages and doubts that wait for a person, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SetAside {
    /// Dead letters.
    pub dead: Pile,
    /// Operations in doubt.
    pub in_doubt: Pile,
    /// Messages in quarantine.
    pub quarantined: Pile,
}

/// The number of them, and the time since which the oldest waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pile {
    /// Their number.
    pub count: u64,
    /// The time since which the oldest waits.
    pub oldest: Option<Time>,
}

impl SetAside {
    /// Counts in the store what a pipeline has.
    ///
    /// # Cost
    ///
    /// Goes through all of it, a page at a time.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn of(store: &AnyStore, scope: &Scope) -> Result<Self> {
        Ok(Self {
            dead: messages(store, scope, Kind::DeadLetters).await?,
            in_doubt: doubts(store, scope).await?,
            quarantined: messages(store, scope, Kind::Quarantined).await?,
        })
    }

    /// Iterates over what there is, each with the words for one and for several.
    pub(super) fn piles(&self) -> impl Iterator<Item = (Pile, &'static str, &'static str)> {
        let all = [
            (self.dead, "dead letter", "dead letters"),
            (self.in_doubt, "operation in doubt", "operations in doubt"),
            (
                self.quarantined,
                "message in quarantine",
                "messages in quarantine",
            ),
        ];
        all.into_iter().filter(|(pile, ..)| pile.count > 0)
    }

    /// Returns the time since which the oldest of all waits.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        let oldest = self.piles().filter_map(|(pile, ..)| pile.oldest);
        oldest.map(|Time(at)| at).min()
    }
}

impl Pile {
    fn add(&mut self, at: Timestamp) {
        self.count += 1;
        let oldest = self.oldest.map_or(at, |Time(oldest)| oldest.min(at));
        self.oldest = Some(Time(oldest));
    }
}

async fn messages(store: &AnyStore, scope: &Scope, kind: Kind) -> Result<Pile> {
    let search = Search {
        kind,
        within: ListQuery::in_scope(scope),
        names: Arc::new(Names::default()),
        filter: Filter::default(),
    };
    let mut pile = Pile::default();
    let count = async |found: Vec<crate::parked::Found>| {
        for it in &found {
            pile.add(it.message.since);
        }
        Ok(ControlFlow::Continue(()))
    };
    search.pages(store, count).await?;
    Ok(pile)
}

async fn doubts(store: &AnyStore, scope: &Scope) -> Result<Pile> {
    let query = ListQuery {
        state: Some(StateKind::InDoubt),
        ..ListQuery::in_scope(scope)
    };
    let mut pile = Pile::default();
    let fetch = async |query: &ListQuery| store.list(query).await;
    for_each_page(query, fetch, |page| {
        for it in &page {
            pile.add(since(&it.record));
        }
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    Ok(pile)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use semel_core::{Key, Parked, Reason};
    use semel_store_memory::MemoryStore;

    use super::*;
    use crate::samples::{EARLIER, LATER, NOW, Stopped, operation};

    #[tokio::test]
    async fn what_is_set_aside_is_counted_with_the_age_of_the_oldest() {
        let store = AnyStore::new(Arc::new(MemoryStore::new(Arc::new(Stopped))));
        let scope = operation().scope;
        let nothing = SetAside::of(&store, &scope).await.expect("counts");
        assert_eq!(nothing, SetAside::default());
        assert_eq!(nothing.oldest(), None);
        // The store itself says since when.
        let message = |key: &str, reason: &str| Parked {
            scope: scope.clone(),
            key: Some(Key::parse(key).expect("a key")),
            reason: reason.into(),
            detail: "why".into(),
            transport: None,
            coordinates: "in:1".into(),
            headers: Vec::new(),
            payload: Bytes::new(),
            since: Timestamp::EPOCH,
        };
        let mut other = message("pay-4", "dead");
        other.scope = Scope::new("", "refunds").expect("a scope");
        let all = [
            message("pay-1", "dead"),
            message("pay-2", "dead"),
            message("pay-3", Reason::TooOld.code()),
            other,
        ];
        store.park(all.into()).await.expect("parked");
        let aside = SetAside::of(&store, &scope).await.expect("counts");
        let pile = |count| Pile {
            count,
            oldest: Some(Time(NOW)),
        };
        assert_eq!(aside.dead, pile(2));
        assert_eq!(aside.in_doubt, Pile::default());
        assert_eq!(aside.quarantined, pile(1));
        assert_eq!(aside.oldest(), Some(NOW));
    }

    #[test]
    fn the_oldest_is_the_oldest_whatever_the_order() {
        let mut pile = Pile::default();
        for at in [NOW, EARLIER, LATER] {
            pile.add(at);
        }
        let expected = Pile {
            count: 3,
            oldest: Some(Time(EARLIER)),
        };
        assert_eq!(pile, expected);
        let aside = SetAside {
            dead: Pile {
                count: 1,
                oldest: Some(Time(NOW)),
            },
            quarantined: pile,
            ..SetAside::default()
        };
        assert_eq!(aside.oldest(), Some(EARLIER));
    }
}
