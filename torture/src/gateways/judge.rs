//! The comparison of what clients were told with the book of the API.

use std::collections::{BTreeMap, BTreeSet};

use super::body;
use crate::api::{self, Api};
use crate::class::Class;
use crate::http::Reply;

/// The parts that are compared at the end.
pub(super) struct Judge<'a> {
    pub(super) api: &'a Api,
    pub(super) class: Class,
    pub(super) finals: &'a BTreeMap<String, Option<Reply>>,
    pub(super) lists: &'a (BTreeSet<String>, BTreeSet<String>),
    pub(super) told: &'a BTreeMap<String, Reply>,
}

impl Judge<'_> {
    /// Holds what clients were told against the book; returns the number of keys that were carried out more than once.
    pub(super) fn judge(&self) -> u64 {
        let (doubts, repeated) = self.lists;
        let open = self.finals.iter().filter(|(_, end)| end.is_none());
        let open: BTreeSet<_> = open.map(|(key, _)| key.clone()).collect();
        assert_eq!(&open, doubts, "every doubt that was told is listed");
        if self.class != Class::Park {
            assert!(doubts.is_empty(), "{}: {doubts:?}", self.class.name());
        }
        let mut again = 0;
        for (key, end) in self.finals {
            let arrivals = self.api.arrivals(&body(key));
            let history = || format!("{key}: {end:?} after {arrivals:?}");
            // One intent has one key, and one operation.
            let is_one =
                |it: &api::Arrival| it.key == *key && it.operation == arrivals[0].operation;
            assert!(arrivals.iter().all(is_one), "{}", history());
            let effects: BTreeSet<_> = arrivals.iter().filter_map(|it| it.effect).collect();
            match self.class {
                Class::Park => {
                    let before = &arrivals[..arrivals.len().saturating_sub(1)];
                    let is_refusal = |it: &api::Arrival| matches!(it.status, Some(429 | 503));
                    assert!(before.iter().all(is_refusal), "sent again: {}", history());
                }
                Class::Repeat => {
                    let is_listed = effects.len() <= 1 || repeated.contains(key);
                    assert!(is_listed, "not listed: {}", history());
                }
                Class::Keyed => assert!(effects.len() <= 1, "{}", history()),
            }
            again += u64::from(effects.len() > 1);
            let Some(end) = end else {
                assert_eq!(self.told.get(key), None, "{}", history());
                continue;
            };
            match end.status {
                402 => assert!(effects.is_empty(), "{}", history()),
                _ => assert!(effects.iter().any(|it| is_about(end, *it)), "{}", history()),
            }
        }
        again
    }
}

/// Tells whether an answer is that of the API about this effect, byte for byte.
fn is_about(reply: &Reply, effect: u64) -> bool {
    let tag = format!("\"{effect}\"");
    let (status, body, kept) = reply.kept();
    let told = api::told(effect);
    (status, body) == (201, told.as_bytes()) && kept == [Some("application/json"), Some(&*tag)]
}
