//! The comparison of what the provider was told with the book of the API.

use std::collections::{BTreeMap, BTreeSet};

use super::sender::{Told, body};
use crate::api::{self, Api};
use crate::class::Class;

/// The parts that are compared at the end.
pub(super) struct Ledger<'a> {
    pub(super) api: &'a Api,
    pub(super) class: Class,
    /// The fate of every event that was begun, in the end.
    pub(super) finals: &'a BTreeMap<String, Told>,
    pub(super) doubts: &'a BTreeSet<String>,
    pub(super) repeated: &'a BTreeSet<String>,
}

/// The counts of what was found.
pub(super) struct Counts {
    pub(super) doubts: u64,
    /// The events that were carried out more than once.
    pub(super) repeated: u64,
}

impl Ledger<'_> {
    /// Holds what the provider was told against the book.
    pub(super) fn judge(&self) -> Counts {
        let open = self.finals.iter();
        let open = open.filter(|(_, fate)| **fate == Told::InDoubt);
        let open: BTreeSet<_> = open.map(|(id, _)| id.clone()).collect();
        assert_eq!(&open, self.doubts, "every doubt that was told is listed");
        if self.class != Class::Park {
            assert!(open.is_empty(), "{}: {open:?}", self.class.name());
        }
        let mut repeated = 0;
        for (id, fate) in self.finals {
            let arrivals = self.api.arrivals(&body(id));
            let history = || format!("{id}: {fate:?} after {arrivals:?}");
            // One event is one operation, under one key.
            let is_one = |it: &api::Arrival| it.key == arrivals[0].key && it.operation == it.key;
            assert!(arrivals.iter().all(is_one), "{}", history());
            let effects: BTreeSet<_> = arrivals.iter().filter_map(|it| it.effect).collect();
            match self.class {
                Class::Park => {
                    let before = &arrivals[..arrivals.len().saturating_sub(1)];
                    let is_refusal = |it: &api::Arrival| matches!(it.status, Some(429 | 503));
                    assert!(before.iter().all(is_refusal), "sent again: {}", history());
                }
                Class::Repeat => {
                    let is_listed = effects.len() <= 1 || self.repeated.contains(id);
                    assert!(is_listed, "not listed: {}", history());
                }
                Class::Keyed => assert!(effects.len() <= 1, "{}", history()),
            }
            repeated += u64::from(effects.len() > 1);
            match fate {
                Told::Applied => assert!(!effects.is_empty(), "lost: {}", history()),
                Told::Dead => {
                    let last = arrivals.last().and_then(|it| it.status);
                    let is_declined = effects.is_empty() && last == Some(402);
                    assert!(is_declined, "not declined: {}", history());
                }
                Told::InDoubt => {}
            }
        }
        Counts {
            doubts: open.len() as u64,
            repeated,
        }
    }
}
