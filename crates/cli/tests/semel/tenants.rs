//! Lists of one tenant, of one operation name, of both: a store that the library has filled for more than one tenant.

use std::sync::Arc;

use semel_backends::store::open_for_filling;
use semel_config::StoreUrl;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{Operation, Scope};
use semel_engine::system::SystemClock;

use crate::operator::{items, worked};
use crate::site::Site;

/// Every verb that lists, and the number of items that the pipeline `pay` has in each list.
const LISTS: [(&[&str], usize); 5] = [
    (&["keys", "list"], 5),
    (&["in-doubt", "list"], 2),
    (&["dead-letters", "list"], 1),
    (&["quarantine", "list"], 1),
    (&["store", "audit"], 1),
];

/// Operations that have all that the pipeline `pay` has.
const COPIES: [(&str, &str); 3] = [("acme", "pay"), ("acme", "refund"), ("other", "pay")];

/// A site whose store holds four times the same: of the pipeline `pay`, whose tenant is empty, and of [`COPIES`].
fn shared() -> Site {
    let site = worked("embedded:data");
    site.semel(&["keys", "hold", "done-1", "--yes"]).done();
    let url = StoreUrl::Embedded(site.path("data"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let opened = open_for_filling(&url, Arc::new(SystemClock::new())).await;
        let store = opened.expect("a store").transfer.expect("to transfer");
        let page = store.export(None, 1_000).await.expect("an export");
        assert!(page.next.is_none(), "one page holds all");
        for (tenant, operation) in COPIES {
            let scope = Scope::new(tenant, operation).expect("a scope");
            let copies = page.items.iter().filter_map(|item| copy(item, &scope));
            let copies: Vec<_> = copies.collect();
            let count = copies.len();
            let new = store.import(copies.into()).await.expect("an import");
            assert_eq!(new, vec![true; count]);
        }
    });
    site
}

/// Returns the same item of another scope, if lists have such items.
fn copy(item: &Item, scope: &Scope) -> Option<Item> {
    let mut item = item.clone();
    match &mut item {
        Item::Record(listed) => {
            listed.operation = Operation::new(scope.clone(), listed.operation.key.clone());
        }
        Item::Parked(message) => message.scope = scope.clone(),
        Item::Audited(entry) => entry.scope = Some(scope.clone()),
        _ => return None,
    }
    Some(item)
}

#[test]
fn every_list_can_be_of_a_tenant_of_an_operation_or_of_both() {
    let site = shared();
    for (list, count) in LISTS {
        for (options, times) in [
            (&[][..], 4),
            (&["--pipeline", "pay"], 1),
            (&["--tenant", "acme"], 2),
            (&["--tenant", "other"], 1),
            (&["--tenant", ""], 1),
            (&["--tenant", "nobody"], 0),
            (&["--operation", "pay"], 3),
            (&["--operation", "refund"], 1),
            (&["--operation", "nobody"], 0),
            (&["--tenant", "acme", "--operation", "pay"], 1),
            (&["--tenant", "other", "--operation", "refund"], 0),
        ] {
            let typed = [list, options, &["--output", "json"]].concat();
            let listed = items(&site.semel(&typed).done());
            assert_eq!(listed.len(), count * times, "{typed:?}: {listed:?}");
            let names = listed.iter().map(|it| it["pipeline"].as_str());
            let wanted = options.iter().position(|it| *it == "--operation");
            let wanted = wanted.map(|at| options[at + 1]);
            let mut names = names.map(|name| name.expect("a name"));
            assert!(
                names.all(|name| wanted.is_none_or(|it| it == name)),
                "{typed:?}: {listed:?}"
            );
        }
    }
}

#[test]
fn other_filters_narrow_the_list_of_a_tenant() {
    let site = shared();
    for (typed, count) in [
        ("keys list --tenant acme --state completed", 4),
        ("keys list --operation refund --prefix do", 3),
        ("keys list --tenant acme --operation pay --held", 1),
        ("in-doubt list --tenant acme --limit 3", 3),
        ("store audit --operation pay --key done-1", 3),
        ("store audit --tenant acme --key done-2", 0),
    ] {
        let typed: Vec<_> = typed.split(' ').chain(["--output", "json"]).collect();
        let listed = items(&site.semel(&typed).done());
        assert_eq!(listed.len(), count, "{typed:?}: {listed:?}");
    }
}

#[test]
fn a_pipeline_is_not_named_together_with_a_tenant_or_an_operation() {
    let site = worked("embedded:data");
    let long = "x".repeat(256);
    for (list, _) in LISTS {
        for option in ["--tenant", "--operation"] {
            let both = [list, &["--pipeline", "pay", option, "pay"]].concat();
            site.semel(&both).code(2).says("cannot be used with");
            let odd = [list, &[option, "a\nb"]].concat();
            site.semel(&odd).code(2).says("control character");
            let long = [list, &[option, &long]].concat();
            site.semel(&long).code(2).says("over 255 bytes long");
        }
        let none = [list, &["--operation", ""]].concat();
        site.semel(&none)
            .code(2)
            .says("the operation name is empty");
    }
}
