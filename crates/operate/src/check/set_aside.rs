//! Counts what of a pipeline waits for a person, and says since when.

use std::ops::ControlFlow;
use std::sync::Arc;

use semel_core::port::store::{ListQuery, Listed};
use semel_core::{AnyStore, Result, StateKind, Timestamp};
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
    /// Their number, as far as they were counted.
    pub count: u64,
    /// The time since which the oldest of these waits.
    pub oldest: Option<Time>,
    /// True if there are more, which were not counted.
    pub is_cut: bool,
}

impl SetAside {
    /// The number up to which each kind is counted.
    pub const MOST: u64 = 1_000;

    /// Counts in the store what `within` selects, of each kind up to [`Self::MOST`].
    ///
    /// # Cost
    ///
    /// Reads messages with their payloads until it has found so many: a small group at a time of a store that `is_lent` by a
    /// process with other work to do, large ones else, since a view of a store that others use is read as a whole for each.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn of(store: &AnyStore, within: &ListQuery, is_lent: bool) -> Result<Self> {
        Ok(Self {
            dead: messages(store, within, Kind::DeadLetters, is_lent).await?,
            in_doubt: doubts(store, within).await?,
            quarantined: messages(store, within, Kind::Quarantined, is_lent).await?,
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
    /// Adds those that wait since these times; breaks when there are more than are counted.
    fn add(&mut self, times: impl IntoIterator<Item = Timestamp>) -> ControlFlow<()> {
        for at in times {
            let oldest = self.oldest.map_or(at, |Time(oldest)| oldest.min(at));
            self.oldest = Some(Time(oldest));
            if self.count == SetAside::MOST {
                self.is_cut = true;
            } else {
                self.count += 1;
            }
        }
        if self.is_cut {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

async fn messages(store: &AnyStore, within: &ListQuery, kind: Kind, is_lent: bool) -> Result<Pile> {
    let search = Search {
        kind,
        within: within.clone(),
        names: Arc::new(Names::default()),
        filter: Filter::default(),
    };
    let mut pile = Pile::default();
    let mut groups = if is_lent {
        search.small_groups()
    } else {
        search.groups()
    };
    while let Some(found) = groups.next(store).await? {
        if pile.add(found.iter().map(|it| it.message.since)).is_break() {
            break;
        }
    }
    Ok(pile)
}

async fn doubts(store: &AnyStore, within: &ListQuery) -> Result<Pile> {
    let query = ListQuery {
        state: Some(StateKind::InDoubt),
        ..within.clone()
    };
    let mut pile = Pile::default();
    for_each_page(store, query, |page: Vec<Listed>| {
        Ok(pile.add(page.iter().map(|it| since(&it.record))))
    })
    .await?;
    Ok(pile)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use semel_core::{Key, Parked, Reason, Scope, Store};
    use semel_store_memory::MemoryStore;

    use super::*;
    use crate::samples::{EARLIER, LATER, NOW, Stopped, operation};

    #[tokio::test]
    async fn what_is_set_aside_is_counted_with_the_age_of_the_oldest() {
        let store = AnyStore::new(Arc::new(MemoryStore::new(Arc::new(Stopped))));
        let scope = operation().scope;
        let nothing = SetAside::of(&store, &ListQuery::in_scope(&scope), false)
            .await
            .expect("counts");
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
        let aside = SetAside::of(&store, &ListQuery::in_scope(&scope), false)
            .await
            .expect("counts");
        let pile = |count| Pile {
            count,
            oldest: Some(Time(NOW)),
            is_cut: false,
        };
        assert_eq!(aside.dead, pile(2));
        assert_eq!(aside.in_doubt, Pile::default());
        assert_eq!(aside.quarantined, pile(1));
        assert_eq!(aside.oldest(), Some(NOW));
    }

    #[tokio::test]
    async fn a_large_pile_is_counted_so_far_and_no_further() {
        let store = AnyStore::new(Arc::new(MemoryStore::new(Arc::new(Stopped))));
        let scope = operation().scope;
        let message = |number: u64| Parked {
            scope: scope.clone(),
            key: None,
            reason: Reason::TooOld.code().into(),
            detail: "why".into(),
            transport: None,
            coordinates: format!("in:{number}").into(),
            headers: Vec::new(),
            payload: Bytes::new(),
            since: Timestamp::EPOCH,
        };
        for (count, is_cut) in [(SetAside::MOST, false), (3 * SetAside::MOST, true)] {
            let all: Vec<_> = (0..count).map(message).collect();
            store.park(all.into()).await.expect("parked");
            let expected = Pile {
                count: SetAside::MOST,
                oldest: Some(Time(NOW)),
                is_cut,
            };
            for is_lent in [false, true] {
                let aside = SetAside::of(&store, &ListQuery::in_scope(&scope), is_lent)
                    .await
                    .expect("counts");
                assert_eq!(aside.quarantined, expected);
            }
        }
    }

    #[test]
    fn the_oldest_is_the_oldest_whatever_the_order() {
        let mut pile = Pile::default();
        for at in [NOW, EARLIER, LATER] {
            assert!(pile.add([at]).is_continue());
        }
        let expected = Pile {
            count: 3,
            oldest: Some(Time(EARLIER)),
            is_cut: false,
        };
        assert_eq!(pile, expected);
        let aside = SetAside {
            dead: Pile {
                count: 1,
                oldest: Some(Time(NOW)),
                is_cut: false,
            },
            quarantined: pile,
            ..SetAside::default()
        };
        assert_eq!(aside.oldest(), Some(EARLIER));
    }
}
