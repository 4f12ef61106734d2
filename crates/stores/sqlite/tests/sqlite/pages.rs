//! The cost of a page of an export.

use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{ClaimId, ClaimRequest, Code, Key, Scope, Store};

use crate::lab::Lab;

#[tokio::test]
async fn a_page_of_an_export_reads_the_scopes_of_its_items_alone() {
    let lab = Lab::new();
    let store = lab.store();
    for number in 0..4 {
        let scope = Scope::new("", &format!("operation-{number}")).expect("a scope");
        let key = Key::parse("k").expect("a key");
        let request = ClaimRequest::new(scope, key, ClaimId::from_u128(number + 1));
        store.claim([request].into()).await.expect("an answer");
    }
    // A scope that no text names: whoever reads it fails.
    let damage = "UPDATE semel_scopes SET tenant = x'ff' WHERE operation = 'operation-3'";
    let damaged = lab.connection().execute(damage, []);
    assert_eq!(damaged.expect("a change"), 1);
    let (mut after, mut records) = (None, 0);
    let error = loop {
        match store.export(after.as_deref(), 1).await {
            Ok(page) => {
                let is_record = |it: &&Item| matches!(it, Item::Record(_));
                records += page.items.iter().filter(is_record).count();
                after = page.next;
                assert!(after.is_some(), "the damage is told");
            }
            Err(error) => break error,
        }
    };
    assert_eq!((records, error.code()), (3, Code::RecordCorrupt));
}

#[test]
fn a_scope_is_found_by_its_number() {
    let lab = Lab::new();
    drop(lab.store());
    let find = include_str!("../../schema/scope_find.sql");
    let connection = lab.connection();
    let mut plan = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {find}"))
        .expect("a plan");
    let plan: String = plan.query_row([1], |row| row.get(3)).expect("a step");
    assert!(plan.contains("USING INTEGER PRIMARY KEY"), "{plan}");
}
