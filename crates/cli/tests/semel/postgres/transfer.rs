//! `semel store export` and `import` between an embedded store and a server.

use super::Schema;
use crate::operator::worked;
use crate::transfer::{goes_round, holdings};

#[test]
fn every_kind_of_item_goes_to_the_server_and_back_and_is_decided_as_before() {
    let schema = Schema::new();
    goes_round("embedded:data", &schema.url(), "embedded:back");
}

#[test]
fn every_kind_of_item_goes_from_the_server_and_back_and_is_decided_as_before() {
    let (from, back) = (Schema::new(), Schema::new());
    goes_round(&from.url(), "embedded:other", &back.url());
}

#[test]
fn an_import_makes_the_store_with_yes_only_and_can_be_repeated() {
    let schema = Schema::new();
    let url = schema.url();
    let site = worked("sqlite:s.db");
    site.semel(&["store", "export", "--to", "a.jsonl"]).done();
    let import = ["store", "import", "a.jsonl", "--store", &url];
    site.semel(&import)
        .code(1)
        .says(&format!("into {url}, which is made for it\n"));
    assert!(!schema.is_there());
    let yes = [&import[..], &["--yes"]].concat();
    site.semel(&yes).done();
    let before = holdings(&site, &url);
    site.semel(&import).code(1).says(&format!(
        "into {url}, which holds 5 records, 4 parked messages\n"
    ));
    let again = site.semel(&yes).done();
    assert!(
        again.stdout.contains("nothing: all of it was there"),
        "{again:#?}"
    );
    let after = holdings(&site, &url);
    assert!(before.is_subset(&after) && after.len() == before.len() + 1);
}
