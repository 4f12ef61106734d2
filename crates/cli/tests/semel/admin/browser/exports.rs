//! The export of the store, as a file that a browser keeps.

use super::Desk;
use crate::site::wait_for;

#[test]
fn the_store_is_exported_to_a_file_that_is_imported_again() {
    let desk = Desk::new();
    let site = &desk.served.site;
    let folder = site.path("kept");
    std::fs::create_dir(&folder).expect("a folder");
    desk.browser.keeps_files_in(&folder);
    desk.open("/store");
    desk.browser.fill("#reason", "a copy for the audit");
    desk.browser.click("form[action$=export] button");
    let kept = || {
        let entries = std::fs::read_dir(&folder).expect("a folder");
        let names = entries.map(|it| it.expect("an entry").file_name());
        let mut names = names.filter_map(|it| it.into_string().ok());
        // One that is still being written has another ending.
        names.find(|it| it.strip_suffix(".jsonl").is_some())
    };
    wait_for("the file", || kept().is_some());
    let name = kept().expect("a file");
    assert!(name.starts_with("semel-export-"), "{name}");
    desk.shows("Durability");
    assert_eq!(desk.browser.messages(), [""; 0]);
    desk.open("/audit");
    desk.shows("a copy for the audit");
    let file = format!("kept/{name}");
    let import = [
        "store",
        "import",
        &file,
        "--store",
        "sqlite:new.db",
        "--yes",
    ];
    let import = site.semel(&import).done();
    assert!(import.stdout.contains("new:  "), "{import:#?}");
}
