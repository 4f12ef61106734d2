//! Lists of one tenant, of one pipeline, of both: a store that the library has filled for more than one tenant.

use std::sync::Arc;

use semel_backends::store::open_for_filling;
use semel_config::StoreUrl;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{Operation, Scope};
use semel_engine::system::SystemClock;

use crate::operator::{items, object, worked};
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
fn every_list_can_be_of_a_tenant_of_a_pipeline_or_of_both() {
    let site = shared();
    for (list, count) in LISTS {
        for (options, times) in [
            (&[][..], 4),
            (&["--pipeline", "pay"], 3),
            (&["--pipeline", "refund"], 1),
            (&["--pipeline", "nobody"], 0),
            (&["--tenant", "acme"], 2),
            (&["--tenant", "other"], 1),
            (&["--tenant", ""], 1),
            (&["--tenant", "nobody"], 0),
            (&["--tenant", "acme", "--pipeline", "pay"], 1),
            (&["--tenant", "", "--pipeline", "pay"], 1),
            (&["--tenant", "other", "--pipeline", "refund"], 0),
        ] {
            let typed = [list, options, &["--output", "json"]].concat();
            let listed = items(&site.semel(&typed).done());
            assert_eq!(listed.len(), count * times, "{typed:?}: {listed:?}");
            let wanted = |option: &str| {
                let at = options.iter().position(|it| *it == option)?;
                Some(options[at + 1])
            };
            for item in &listed {
                let name = item["pipeline"].as_str().expect("a name");
                let tenant = item.get("tenant").map(|it| it.as_str().expect("a name"));
                assert_ne!(tenant, Some(""), "there is none: {typed:?}: {item}");
                let is_wanted = wanted("--pipeline").is_none_or(|it| it == name)
                    && wanted("--tenant").is_none_or(|it| it == tenant.unwrap_or_default());
                assert!(is_wanted, "{typed:?}: {item}");
            }
        }
    }
}

#[test]
fn a_list_has_a_column_of_tenants_where_there_are_any() {
    let site = shared();
    for (list, _) in LISTS {
        let typed = [list, &["--tenant", "acme"]].concat();
        let table = site.semel(&typed).done().stdout;
        let heading = table.lines().next().expect("headings");
        assert!(heading.contains("TENANT"), "{typed:?}: {table}");
        let mut rows = table.lines().skip(1);
        assert!(rows.all(|row| row.contains("acme")), "{typed:?}: {table}");
        let typed = [list, &["--tenant", ""]].concat();
        let table = site.semel(&typed).done().stdout;
        assert!(!table.contains("TENANT"), "{typed:?}: {table}");
    }
}

#[test]
fn other_filters_narrow_the_list_of_a_tenant() {
    let site = shared();
    for (typed, count) in [
        ("keys list --tenant acme --state completed", 4),
        ("keys list --pipeline refund --prefix do", 3),
        ("keys list --tenant acme --pipeline pay --held", 1),
        ("in-doubt list --tenant acme --limit 3", 3),
        ("store audit --pipeline pay --key done-1", 3),
        ("store audit --tenant acme --key done-2", 0),
    ] {
        let typed: Vec<_> = typed.split(' ').chain(["--output", "json"]).collect();
        let listed = items(&site.semel(&typed).done());
        assert_eq!(listed.len(), count, "{typed:?}: {listed:?}");
    }
}

#[test]
fn a_key_of_another_tenant_than_the_pipelines_is_named_with_it() {
    let site = shared();
    // The configuration says that the pipeline has no tenants.
    let shown = site.semel(&["keys", "show", "done-1", "--output", "json"]);
    assert!(object(&shown.done()).get("tenant").is_none());
    let typed = [
        "keys", "show", "done-1", "--tenant", "acme", "--output", "json",
    ];
    assert_eq!(object(&site.semel(&typed).done())["tenant"], "acme");
    let nobody = ["keys", "show", "done-1", "--tenant", "nobody"];
    site.semel(&nobody)
        .code(1)
        .says("there is no record of done-1 in pay of nobody");
    // Without a configuration, nobody knows.
    let place = ["--store", "embedded:data", "--pipeline", "pay"];
    std::fs::remove_file(site.path("semel.toml")).expect("a file");
    for verb in [
        &["keys", "show"][..],
        &["keys", "hold"],
        &["in-doubt", "resolve", "--applied"],
    ] {
        let typed = [verb, &["done-1"], &place].concat();
        site.semel(&typed).code(2).says(
            "which tenant? pay has done-1 of '' (completed), acme (completed), other (completed); name one with \
             --tenant NAME",
        );
    }
    let typed = [&["keys", "show", "done-1", "--tenant", ""], &place[..]].concat();
    site.semel(&typed).done();
}

/// A plan shows the first few things; whose they all are, it says in any case.
#[test]
fn a_change_of_all_names_the_tenants_it_covers() {
    let site = shared();
    for (typed, count) in [
        ("dead-letters drop --all", 1),
        ("quarantine drop --all", 1),
        ("in-doubt resolve --all --applied", 2),
    ] {
        let typed: Vec<_> = typed.split(' ').collect();
        // The pipeline `refund` is another one of acme's.
        let of_acme = 2 * count;
        let covers = format!("tenants: '' ({count}), acme ({of_acme}), other ({count})");
        site.semel(&typed).code(1).says(&covers);
        let named = [&typed[..], &["--tenant", "other"]].concat();
        let planned = site.semel(&named).code(1);
        planned.says(&format!("tenants: other ({count})"));
        let nobodys = site
            .semel(&[&typed[..], &["--tenant", ""]].concat())
            .code(1);
        assert!(!nobodys.stderr.contains("tenants:"), "{nobodys:?}");
    }
}

#[test]
fn a_name_that_is_none_is_refused() {
    let site = worked("embedded:data");
    let long = "x".repeat(256);
    for (list, _) in LISTS {
        for option in ["--tenant", "--pipeline"] {
            let odd = [list, &[option, "a\nb"]].concat();
            site.semel(&odd).code(2).says("control character");
            let long = [list, &[option, &long]].concat();
            site.semel(&long).code(2).says("over 255 bytes long");
        }
        let none = [list, &["--pipeline", ""]].concat();
        site.semel(&none)
            .code(2)
            .says("the operation name is empty");
    }
}
