//! Lists of one tenant, of one operation name, of both: all that is theirs, over pages of any length, and nothing else.

use std::collections::BTreeSet;

use bytes::Bytes;
use semel_core::decide::{Directed, Order};
use semel_core::port::store::ListQuery;
use semel_core::{Parked, Scope, StateKind, Timestamp};

use super::audit::note;
use crate::lab::{Lab, scope_of, text_key};
use crate::steps::{complete, release};

/// A tenant selects its records, whatever their operation.
pub async fn records_are_selected_by_tenant(lab: Lab) {
    selects(&lab, List::Records, BY_TENANT).await;
}

/// An operation name selects its records, whatever their tenant.
pub async fn records_are_selected_by_operation(lab: Lab) {
    selects(&lab, List::Records, BY_OPERATION).await;
}

/// A tenant and an operation name select the records of both.
pub async fn records_are_selected_by_tenant_and_operation(lab: Lab) {
    selects(&lab, List::Records, BY_BOTH).await;
}

/// A list of the records of nobody is empty, and ends.
pub async fn a_list_of_nobodys_records_is_empty(lab: Lab) {
    selects(&lab, List::Records, NOBODY).await;
}

/// A tenant's records in one state are those of both.
pub async fn records_of_a_tenant_are_selected_by_state(lab: Lab) {
    let all = fill(&lab, List::Records).await;
    for limit in LIMITS {
        for (state, is_even) in [
            (Some(StateKind::Completed), Some(true)),
            (Some(StateKind::Released), Some(false)),
            (Some(StateKind::InDoubt), None),
        ] {
            let query = ListQuery {
                state,
                ..query(Some("acme"), None, limit)
            };
            let found = List::Records.names(&lab, &query).await;
            let is_wanted = |(at, (scope, _)): &(usize, &Named)| {
                scope.tenant() == "acme" && is_even == Some(at % 2 == 0)
            };
            let wanted = all.iter().enumerate().filter(is_wanted);
            let wanted: BTreeSet<_> = wanted.map(|(_, named)| named.clone()).collect();
            assert_eq!((found.len(), unique(found)), (wanted.len(), wanted));
        }
        let query = ListQuery {
            repeated: true,
            ..query(Some("acme"), None, limit)
        };
        assert_eq!(lab.list(&query).await, [], "none was repeated");
    }
}

/// A tenant's records are listed once each, whoever's records arrive meanwhile.
pub async fn paging_of_a_tenant_goes_on_while_records_arrive(lab: Lab) {
    let all = fill(&lab, List::Records).await;
    let theirs = all.iter().filter(|(scope, _)| scope.tenant() == "acme");
    let theirs: BTreeSet<_> = theirs.cloned().collect();
    let (mut query, mut seen, mut arrived) = (query(Some("acme"), None, 1), Vec::new(), 0);
    loop {
        let page = lab.page(&query).await;
        let items = page.items.into_iter().map(|listed| listed.operation);
        seen.extend(items.map(|it| (it.scope, it.key.to_string())));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
        if arrived < 40 {
            for tenant in ["acme", "other"] {
                let mut request = lab.request(&format!("new-{arrived}"), 1);
                request.operation.scope = scope_of(tenant, "laws");
                lab.finish(&request, complete("done")).await;
            }
            arrived += 1;
        }
        assert!(seen.len() < 1_000, "the list does not end");
    }
    assert!(seen.iter().all(|(scope, _)| scope.tenant() == "acme"));
    let old = seen.iter().filter(|named| theirs.contains(*named));
    assert_eq!(old.count(), theirs.len(), "each that was there is listed");
    assert_eq!(unique(seen.clone()).len(), seen.len(), "and none twice");
}

/// A tenant selects its parked messages, whatever their operation.
pub async fn messages_are_selected_by_tenant(lab: Lab) {
    selects(&lab, List::Parked, BY_TENANT).await;
}

/// An operation name selects its parked messages, whatever their tenant.
pub async fn messages_are_selected_by_operation(lab: Lab) {
    selects(&lab, List::Parked, BY_OPERATION).await;
}

/// A tenant and an operation name select the parked messages of both.
pub async fn messages_are_selected_by_tenant_and_operation(lab: Lab) {
    selects(&lab, List::Parked, BY_BOTH).await;
}

/// A list of the parked messages of nobody is empty, and ends.
pub async fn a_list_of_nobodys_messages_is_empty(lab: Lab) {
    selects(&lab, List::Parked, NOBODY).await;
}

/// A tenant's parked messages with one reason are those of both.
pub async fn messages_of_a_tenant_are_selected_by_reason(lab: Lab) {
    let all = fill(&lab, List::Parked).await;
    for limit in LIMITS {
        for (reason, is_even) in [("not-json", true), ("too-old", false)] {
            let query = ListQuery {
                reasons: vec![reason.into()],
                ..query(None, Some("refunds"), limit)
            };
            let found = List::Parked.names(&lab, &query).await;
            let is_wanted = |(at, (scope, _)): &(usize, &Named)| {
                scope.operation() == "refunds" && is_even == (at % 2 == 0)
            };
            let wanted = all.iter().enumerate().filter(is_wanted);
            let wanted: BTreeSet<_> = wanted.map(|(_, named)| named.clone()).collect();
            assert_eq!((found.len(), unique(found)), (wanted.len(), wanted));
        }
    }
}

/// A tenant selects its entries of the audit trail, in their order.
pub async fn entries_are_selected_by_tenant(lab: Lab) {
    selects(&lab, List::Trail, BY_TENANT).await;
}

/// An operation name selects its entries of the audit trail, in their order.
pub async fn entries_are_selected_by_operation(lab: Lab) {
    selects(&lab, List::Trail, BY_OPERATION).await;
}

/// A tenant and an operation name select the entries of both, in their order.
pub async fn entries_are_selected_by_tenant_and_operation(lab: Lab) {
    selects(&lab, List::Trail, BY_BOTH).await;
}

/// A list of the entries of nobody is empty, and ends.
pub async fn a_list_of_nobodys_entries_is_empty(lab: Lab) {
    selects(&lab, List::Trail, NOBODY).await;
}

/// A list of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Records,
    Parked,
    Trail,
}

/// The scope and the key of an item.
type Named = (Scope, String);

/// A tenant, an operation name.
type Filter = (Option<&'static str>, Option<&'static str>);

impl List {
    /// Returns the items that `query` selects, over all its pages.
    async fn names(self, lab: &Lab, query: &ListQuery) -> Vec<Named> {
        match self {
            Self::Records => {
                let listed = lab.list(query).await.into_iter();
                let operations = listed.map(|listed| listed.operation);
                operations
                    .map(|it| (it.scope, it.key.to_string()))
                    .collect()
            }
            Self::Parked => {
                let listed = lab.list_parked(query).await.into_iter();
                listed
                    .map(|it| (it.scope, it.coordinates.to_string()))
                    .collect()
            }
            Self::Trail => {
                let listed = lab.list_audit(query).await.into_iter();
                let named = listed.filter_map(|it| Some((it.scope?, it.key?.to_string())));
                named.collect()
            }
        }
    }
}

/// Expects that each filter selects what it should, in pages of every limit.
async fn selects(lab: &Lab, list: List, filters: &[Filter]) {
    let all = fill(lab, list).await;
    for limit in LIMITS {
        for &(tenant, operation) in filters {
            let found = list.names(lab, &query(tenant, operation, limit)).await;
            let is_wanted = |(scope, _): &&Named| {
                tenant.is_none_or(|it| it == scope.tenant())
                    && operation.is_none_or(|it| it == scope.operation())
            };
            let wanted: Vec<_> = all.iter().filter(is_wanted).cloned().collect();
            let shown = format!("{list:?} of {tenant:?} and {operation:?} in pages of {limit}");
            assert_eq!(found.len(), wanted.len(), "{shown}");
            assert_eq!(wanted.is_empty(), filters == NOBODY, "{shown}");
            if list == List::Trail {
                assert_eq!(found, wanted, "{shown}");
            } else {
                assert_eq!(unique(found), unique(wanted), "{shown}");
            }
        }
    }
}

/// Adds one item after the other to the places, in turn. Every second record is released, the others are completed;
/// every second message is too old, the others are not JSON.
async fn fill(lab: &Lab, list: List) -> Vec<Named> {
    let mut all = Vec::new();
    for turn in 0..TURNS {
        let places = PLACES.iter().filter(|(_, _, count)| turn < *count);
        for (tenant, operation, _) in places {
            let (scope, number) = (scope_of(tenant, operation), all.len());
            let name = format!("pay-{number}");
            let mut request = lab.request(&name, 1);
            request.operation.scope = scope.clone();
            match list {
                List::Records if number % 2 == 1 => {
                    let claim = lab.grant(&request).await;
                    lab.settles(&claim, release(), StateKind::Released).await;
                }
                List::Records => lab.finish(&request, complete("done")).await,
                List::Parked => {
                    assert!(lab.park(&message(scope.clone(), &name, number)).await);
                }
                List::Trail => {
                    lab.finish(&request, complete("done")).await;
                    let (of, why) = (&request.operation, note("on call", "audit"));
                    let held = lab.order_noted(of, Order::Hold(true), &why).await;
                    assert!(matches!(held, Directed::Now(_)), "{held:?}");
                }
            }
            all.push((scope, name));
        }
    }
    all
}

fn query(tenant: Option<&str>, operation: Option<&str>, limit: usize) -> ListQuery {
    ListQuery {
        tenant: tenant.map(Into::into),
        operation: operation.map(Into::into),
        limit,
        ..ListQuery::default()
    }
}

fn message(scope: Scope, name: &str, number: usize) -> Parked {
    let reason = if number % 2 == 1 {
        "too-old"
    } else {
        "not-json"
    };
    Parked {
        scope,
        key: Some(text_key(name)),
        reason: reason.into(),
        detail: "".into(),
        transport: None,
        coordinates: name.into(),
        headers: Vec::new(),
        payload: Bytes::from_static(b"{"),
        since: Timestamp::EPOCH,
    }
}

fn unique(named: Vec<Named>) -> BTreeSet<Named> {
    named.into_iter().collect()
}

/// Tenants, operation names, and the number of their items: names that differ by case, by a space, by nothing but their
/// place.
const PLACES: [(&str, &str, usize); 9] = [
    ("", "laws", 3),
    ("acme", "laws", 5),
    ("other", "refunds", 6),
    ("acme", "refunds", 2),
    ("Acme", "laws", 1),
    ("acme ", "refunds", 1),
    ("", "refunds ", 1),
    ("acme", "Laws", 1),
    ("laws", "acme", 1),
];
/// The greatest number of items of a place.
const TURNS: usize = 6;
const LIMITS: [usize; 4] = [1, 2, 5, 100];

const BY_TENANT: &[Filter] = &[
    (Some("acme"), None),
    (Some("Acme"), None),
    (Some("acme "), None),
    (Some(""), None),
    (Some("other"), None),
];
const BY_OPERATION: &[Filter] = &[
    (None, Some("laws")),
    (None, Some("refunds")),
    (None, Some("refunds ")),
    (None, Some("acme")),
];
const BY_BOTH: &[Filter] = &[
    (Some("acme"), Some("laws")),
    (Some("acme"), Some("refunds")),
    (Some(""), Some("laws")),
    (Some("laws"), Some("acme")),
];
/// Names that nobody has: some with others' beginnings, some that are patterns elsewhere, some that no scope can have.
const NOBODY: &[Filter] = &[
    (Some("nobody"), None),
    (None, Some("nobody")),
    (Some("other"), Some("laws")),
    (Some("acm"), None),
    (Some("acme%"), None),
    (None, Some("law_")),
    (None, Some("")),
    (Some("acme\0"), None),
    (None, Some("laws\0")),
];
