//! A check beside the laws, for stores that keep much: a page with a filter comes back after a bounded number of rows,
//! although it is not full. It wants thousands of items, so it is no case.

use bytes::Bytes;
use semel_core::decide::{Directive, Order};
use semel_core::port::store::{ListQuery, Page};
use semel_core::{ClaimId, ClaimRequest, Operation, Parked, Scope, Store, Timestamp};

use crate::lab::{answered, scope_of, text_key};
use crate::laws::audit::note;

/// Fills `store`, which is empty, with the items of one tenant and a few of another, and lists those of the other.
///
/// # Panics
///
/// When a list goes on beyond its bound, or is not complete.
pub async fn check(store: &impl Store) {
    let (many, few) = (scope_of("many", "laws"), scope_of("few", "laws"));
    fill(store, &many, MANY).await;
    fill(store, &few, FEW).await;
    let mut query = ListQuery {
        tenant: Some("few".into()),
        limit: FEW * 2,
        ..ListQuery::default()
    };
    for list in ["list", "list_parked", "list_audit"] {
        let (mut pages, mut found) = (0, 0);
        query.after = None;
        loop {
            let (items, next) = match list {
                "list" => counted(answered(store.list(&query).await, list)),
                "list_parked" => counted(answered(store.list_parked(&query).await, list)),
                _ => counted(answered(store.list_audit(&query).await, list)),
            };
            (pages, found, query.after) = (pages + 1, found + items, next);
            if query.after.is_none() {
                break;
            }
            assert!(pages < MANY, "{list} does not end");
        }
        assert_eq!(found, FEW, "{list} is complete");
        assert!(pages > 1, "{list} goes through {MANY} items at once");
    }
}

fn counted<T>(page: Page<T>) -> (usize, Option<Bytes>) {
    (page.items.len(), page.next)
}

/// Adds records, parked messages and audit entries.
async fn fill(store: &impl Store, scope: &Scope, count: usize) {
    let operations: Vec<_> = (0..count)
        .map(|number| Operation::new(scope.clone(), text_key(&format!("pay-{number}"))))
        .collect();
    for some in operations.chunks(AT_ONCE) {
        let claim = |it: &Operation| {
            let claim_id = ClaimId::from_u128(1);
            ClaimRequest::new(it.scope.clone(), it.key.clone(), claim_id)
        };
        let claims = some.iter().map(claim).collect();
        answered(store.claim(claims).await, "claim");
        let messages = some.iter().map(message).collect();
        answered(store.park(messages).await, "park");
        let order = |_: &Operation| Directive {
            operation: operations[0].clone(),
            order: Order::Hold(true),
            note: Some(note("on call", "audit")),
        };
        let orders = some.iter().map(order).collect();
        answered(store.operate(orders).await, "operate");
    }
}

fn message(operation: &Operation) -> Parked {
    Parked {
        scope: operation.scope.clone(),
        key: Some(operation.key.clone()),
        reason: "dead".into(),
        detail: "".into(),
        transport: None,
        coordinates: "file:1".into(),
        headers: Vec::new(),
        payload: Bytes::from_static(b"{}"),
        since: Timestamp::EPOCH,
    }
}

/// More than any store goes through for one page.
const MANY: usize = 17_000;
const FEW: usize = 3;
const AT_ONCE: usize = 1_000;
