//! `semel store export` and `semel store import`.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::Stdio;

use rustix::process::Signal;
use semel_core::Clock;
use semel_engine::system::SystemClock;

use crate::operator::{STORES, fresh, object, worked, worker};
use crate::site::{Running, Site, lines, wait_for};

const EXPORT: &[&str] = &["store", "export"];

/// The contents of a store, item by item. The token is left out: an embedded store advances it whenever it is
/// opened.
pub(crate) fn holdings(site: &Site, store: &str) -> BTreeSet<String> {
    let ended = site.semel(&["store", "export", "--store", store]).done();
    bodies(&ended.stdout)
}

/// The lines of an export between its head and its end, without checksums.
fn bodies(export: &str) -> BTreeSet<String> {
    let body = |line: &str| {
        line.split(",\"crc\":")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let bodies = export.lines().map(body);
    let framed = ["{\"semel_export\":", "{\"end\":", "{\"token\":"];
    bodies
        .filter(|body| !framed.iter().any(|it| body.starts_with(it)))
        .collect()
}

/// A site whose store holds every kind of item and records in every state; returns also the pipelines: runs of
/// the first two end by themselves.
fn full(store: &str) -> (Site, [&'static str; 3]) {
    let site = worked(store);
    let pay = site.text("semel.toml");
    // An output file has a mark, and a version gate has entities.
    let gated = "[pipelines.stock]\nsource = { kind = \"file\", path = \"stock\" }\n\
                 key = \"json:/id\"\nentity = \"json:/sku\"\nversion = \"json:/v\"\n\
                 effect = { kind = \"file\", path = \"out\" }\n";
    let slow = "[pipelines.slow]\nsource = { kind = \"file\", path = \"slow\" }\nkey = \"json:/id\"\n\
                retry = { backoff = \"1h\" }\nlease = \"1h\"\nbirth = \"json:/born\"\n[pipelines.slow.effect]\n\
                kind = \"exec\"\nclass = \"keyed\"\nprovider_window = \"1h\"\ncommand = [\"sh\", \"handler.sh\"]\n";
    site.write("semel.toml", format!("{pay}{gated}{slow}"));
    site.write(
        "stock",
        "{\"id\":\"m1\",\"sku\":\"s1\",\"v\":1}\n{\"id\":\"m2\",\"sku\":\"s1\",\"v\":3}\n\
         {\"id\":\"m3\",\"sku\":\"s1\",\"v\":2}\n{\"id\":\"m4\",\"sku\":\"é\\u0000\\n\",\"v\":1}\n\u{1}\n",
    );
    site.semel(&["run", "--pipeline", "stock"]).done();
    let born = SystemClock::new().now();
    site.write(
        "slow",
        format!(
            "{{\"id\":\"again-1\",\"born\":\"{born}\"}}\n{{\"id\":\"slow-1\",\"born\":\"{born}\"}}\n\
             {{\"id\":\"old-1\",\"born\":1}}\n"
        ),
    );
    let running = site.start(&["run", "--pipeline", "slow"]);
    wait_for("both calls", || {
        site.path("ran-again-1").exists() && site.path("ran-slow-1").exists()
    });
    // What is asked beside it is on record by then.
    wait_for("the end of the first", || {
        let ended = site.semel(&["keys", "show", "again-1", "--pipeline", "slow"]);
        ended.stdout.contains("released")
    });
    running.signal(Signal::KILL);
    running.wait();
    site.semel(&[
        "keys",
        "hold",
        "done-1",
        "--pipeline",
        "pay",
        "--reason",
        "audit",
        "--yes",
    ])
    .done();
    (site, ["pay", "stock", "slow"])
}

/// The summary of a run of each pipeline, without its time.
fn decisions(site: &Site, store: &str, pipelines: &[&str]) -> Vec<String> {
    let run = |pipeline: &&str| {
        let arguments = [
            "run",
            "--pipeline",
            pipeline,
            "--store",
            store,
            "--output",
            "json",
        ];
        let ended = site.semel(&arguments).done();
        let (counts, _) = ended.stdout.split_once(",\"elapsed").expect("a summary");
        counts.to_owned()
    };
    pipelines.iter().map(run).collect()
}

#[test]
fn both_verbs_have_help_with_an_example_and_refuse_what_they_do_not_know() {
    let site = Site::new();
    for verb in ["export", "import"] {
        let help = site.semel(&["store", verb, "--help"]).done();
        assert!(help.stdout.contains("Example"), "{help:#?}");
        assert_eq!(
            site.semel(&["store", verb, "x", "--no-such-option"])
                .code(2)
                .stdout,
            ""
        );
    }
    site.semel(&["store", "import"]).code(2);
    site.semel(&["store", "export", "out"]).code(2);
}

#[test]
fn every_kind_of_item_goes_from_store_to_store_and_is_decided_as_before() {
    goes_round("embedded:data", "sqlite:other.db", "embedded:back");
    goes_round("sqlite:s.db", "embedded:other", "sqlite:back.db");
}

/// Transfers everything from one store to another and from there to a third, and checks that it is the same
/// there.
pub(crate) fn goes_round(from: &str, via: &str, back: &str) {
    let (site, pipelines) = full(from);
    let export = |store: &str, to: &str| {
        site.semel(&["store", "export", "--store", store, "--to", to])
            .done();
        site.text(to)
    };
    let import = |store: &str, file: &str| {
        let import = [
            "store", "import", file, "--store", store, "--yes", "--output", "json",
        ];
        object(&site.semel(&import).done())
    };
    let first = export(from, "first.jsonl");
    for kind in ["token", "record", "entity", "mark", "parked", "audited"] {
        assert!(
            first.contains(&format!("\n{{\"{kind}\":")),
            "no {kind} in {first}"
        );
    }
    for state in ["started", "released", "completed", "dead", "in_doubt"] {
        assert!(
            first.contains(&format!("\"state\":\"{state}\"")),
            "none {state}"
        );
    }
    let said = import(via, "first.jsonl");
    assert_eq!(said["read"], said["new"]);
    let second = export(via, "second.jsonl");
    import(back, "second.jsonl");
    let third = export(back, "third.jsonl");
    let imports = |export: &str| export.matches("\"action\":\"import\"").count();
    assert_eq!(
        (imports(&first), imports(&second), imports(&third)),
        (0, 1, 2)
    );
    let less_imports = |export: &str| {
        let mut items = bodies(export);
        items.retain(|item| !item.contains("\"action\":\"import\""));
        items
    };
    assert_eq!(less_imports(&second), bodies(&first));
    assert_eq!(less_imports(&third), bodies(&first));
    // Two of the pipelines end by themselves; one key of the third is busy for an hour.
    let pipelines = &pipelines[..2];
    let before = decisions(&site, from, pipelines);
    assert!(
        before[0].contains("\"applied\":0,\"replayed\":2"),
        "{before:?}"
    );
    assert!(
        before[1].contains("\"applied\":0,\"replayed\":2,\"stale\":1"),
        "{before:?}"
    );
    assert_eq!(decisions(&site, via, pipelines), before);
    assert_eq!(decisions(&site, back, pipelines), before);
}

#[test]
fn an_import_adds_what_is_not_there_and_can_be_repeated() {
    for store in STORES {
        let site = worked("sqlite:from.db");
        site.semel(&["store", "export", "--to", "a.jsonl"]).done();
        let import = [
            "store", "import", "a.jsonl", "--store", store, "--yes", "--output", "json",
        ];
        let because = ["--reason", "moved", "--by", "ann"];
        let first = object(&site.semel(&[&import[..], &because].concat()).done());
        assert_eq!(first["new"]["records"], 5);
        let before = holdings(&site, store);
        let again = object(&site.semel(&import).done());
        assert_eq!(
            (&again["read"], &again["new"]["items"]),
            (&first["read"], &0.into())
        );
        let after = holdings(&site, store);
        let added: Vec<_> = after.difference(&before).collect();
        assert!(before.is_subset(&after) && added.len() == 1, "{added:?}");
        assert!(added[0].contains("\"action\":\"import\""), "{added:?}");
        let trail = site
            .semel(&["store", "audit", "--store", store, "--output", "jsonl"])
            .done();
        let entry = trail.stdout.lines().next().expect("an entry");
        for text in [
            "\"by\":\"ann\"",
            "\"reason\":\"moved\"",
            "\"before\":\"nothing\"",
        ] {
            assert!(entry.contains(text), "{entry}");
        }
    }
}

#[test]
fn without_yes_an_import_says_what_it_would_do_and_makes_nothing() {
    let site = worked("sqlite:s.db");
    site.semel(&["store", "export", "--to", "a.jsonl"]).done();
    let ended = site
        .semel(&["store", "import", "a.jsonl", "--store", "embedded:new"])
        .code(1);
    let ended = ended
        .says("plan: import 1 export\n")
        .says("of a store of kind sqlite: 5 records, 4 parked messages\n")
        .says("into embedded:new, which is made for it\n")
        .says("nothing was changed; to carry it out:");
    assert_eq!(ended.stdout, "");
    assert!(!site.path("new").exists());
    let ended = site.semel(&["store", "import", "a.jsonl"]).code(1);
    ended.says("into sqlite:s.db, which holds 5 records, 4 parked messages\n");
    let ended = site
        .semel(&["store", "import", "-", "--store", "embedded:new"])
        .code(1);
    ended
        .says("items are imported as they come")
        .says("the exit code is 3");
    assert!(!site.path("new").exists());
}

#[test]
fn a_damaged_file_is_refused_before_anything_is_imported() {
    let site = worked("sqlite:s.db");
    let export = site.semel(EXPORT).done().stdout;
    let lines: Vec<_> = export.split_inclusive('\n').collect();
    let import = [
        "store",
        "import",
        "bad.jsonl",
        "--store",
        "embedded:new",
        "--yes",
    ];
    let last = lines.len() - 1;
    for (text, said, code) in [
        (
            lines[..last].concat(),
            format!("it was cut off after line {last}"),
            "[export-damaged]",
        ),
        (
            export[..export.len() - 30].to_owned(),
            format!("line {}: it was cut off", last + 1),
            "[export-damaged]",
        ),
        (
            export.replace("done-1", "done-2"),
            "it was changed, or lines".to_owned(),
            "[export-damaged]",
        ),
        (
            [&lines[..3], &lines[4..]].concat().concat(),
            "line 4: ".to_owned(),
            "[export-damaged]",
        ),
        (
            format!("{export}{export}"),
            format!("line {}: something follows", last + 2),
            "[export-damaged]",
        ),
        (
            "{\"id\":1}\n".to_owned(),
            "line 1: it does not begin like an export".to_owned(),
            "[export-damaged]",
        ),
        (
            String::new(),
            "there is nothing in it".to_owned(),
            "[export-damaged]",
        ),
        (
            export.replacen(":2,", ":9,", 1),
            "the export has format 9".to_owned(),
            "[store-newer]",
        ),
    ] {
        site.write("bad.jsonl", text);
        let ended = site.semel(&import).code(3).says(&said).says(code);
        assert_eq!(ended.stdout, "");
        assert!(!site.path("new").exists(), "{said}");
    }
    for path in ["no-such-file", "."] {
        let import = ["store", "import", path, "--store", "embedded:new", "--yes"];
        site.semel(&import).code(3).says("[source-unavailable]");
    }
}

#[test]
fn standard_input_is_imported_as_it_comes_and_its_damage_told_at_the_end() {
    let site = worked("sqlite:s.db");
    let export = site.semel(EXPORT).done().stdout;
    let import = [
        "store",
        "import",
        "-",
        "--store",
        "embedded:new",
        "--yes",
        "--output",
        "json",
    ];
    let start = |input: &str| Running::start_with(site.command().args(import), input);
    start("no export\n").wait().code(3).says("[export-damaged]");
    assert!(
        !site.path("new").exists(),
        "what is no export makes no store"
    );
    let cut = &export[..export.len() - 40];
    let ended = start(cut).wait().code(3).says("[export-damaged]");
    assert_eq!(ended.stdout, "");
    let whole = start(&export).wait().done();
    assert_eq!(object(&whole)["read"]["records"], 5);
    assert_eq!(
        holdings(&site, "embedded:new").len(),
        holdings(&site, "sqlite:s.db").len() + 1
    );
    assert_eq!(object(&start(&export).wait().done())["new"]["items"], 0);
}

#[test]
fn a_pipe_is_read_once_as_standard_input_is() {
    let site = worked("sqlite:s.db");
    site.semel(&["store", "export", "--to", "a.jsonl"]).done();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, site.path("pipe"), mode).expect("a pipe");
    let import = ["store", "import", "pipe", "--store", "embedded:new"];
    site.semel(&import)
        .code(1)
        .says("items are imported as they come");
    let running = site.start(&[&import[..], &["--yes"]].concat());
    std::fs::write(site.path("pipe"), site.text("a.jsonl")).expect("a reader");
    let ended = running.wait().done();
    assert!(ended.stdout.contains("new:  5 records"), "{ended:#?}");
}

#[test]
fn what_precedes_the_damage_of_a_long_stream_stays_and_is_counted() {
    let site = fresh("sqlite:s.db");
    let config = site.text("semel.toml");
    let from = config.find("effect =").expect("an effect");
    let config = format!(
        "{}effect = {{ kind = \"file\", path = \"out\" }}\n",
        &config[..from]
    );
    site.write("semel.toml", config);
    site.write(
        "in",
        lines(0..36_000, |id| format!("{{\"id\":\"pay-{id}\"}}")),
    );
    site.run().is(&[("applied", 36_000)]);
    let export = site.semel(EXPORT).done().stdout;
    let import = ["store", "import", "-", "--store", "embedded:new", "--yes"];
    let cut = &export[..export.len() - 40];
    let ended = Running::start_with(site.command().args(import), cut).wait();
    let ended = ended
        .code(3)
        .says("imported before it failed: ")
        .says("import again to go on");
    assert!(ended.stderr.contains("[export-damaged]"), "{ended:#?}");
    let there = holdings(&site, "embedded:new").len();
    assert!((1..36_000).contains(&there), "{there} items");
    let ended = Running::start_with(site.command().args(import), &export)
        .wait()
        .done();
    assert!(ended.stdout.contains("36000 records"), "{ended:#?}");
    assert_eq!(
        holdings(&site, "embedded:new").len(),
        36_002,
        "with the mark and the entry"
    );
}

#[test]
fn a_file_is_there_whole_or_not_at_all_and_is_replaced_with_yes_only() {
    let site = worked("sqlite:s.db");
    let export = ["store", "export", "--to", "a.jsonl"];
    site.semel(&export)
        .done()
        .says("a.jsonl: 5 records, 4 parked messages\n");
    let first = site.text("a.jsonl");
    assert_eq!(bodies(&first), holdings(&site, "sqlite:s.db"));
    site.semel(&["keys", "hold", "done-1", "--yes"]).done();
    site.semel(&export)
        .code(1)
        .says("plan: replace 1 file\n  a.jsonl\n");
    assert_eq!(site.text("a.jsonl"), first);
    site.semel(&[&export[..], &["--yes"]].concat()).done();
    assert_ne!(site.text("a.jsonl"), first);
    let nowhere = ["store", "export", "--to", "no/such/folder/a.jsonl"];
    site.semel(&nowhere).code(3).says("[target-unavailable]");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        site.path("pipe"),
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .expect("a pipe");
    for to in [".", "pipe"] {
        let ended = site
            .semel(&["store", "export", "--yes", "--to", to])
            .code(2);
        ended.says("is no regular file");
    }
    assert!(!site.path("pipe").is_file(), "a pipe is not replaced");
    std::os::unix::fs::symlink("a.jsonl", site.path("link")).expect("a link");
    site.semel(&["store", "export", "--yes", "--to", "link"])
        .done();
    assert!(site.path("link").is_symlink(), "a link stays");
    let left = std::fs::read_dir(site.path("")).expect("a folder");
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    assert!(
        left.iter()
            .all(|name| !name.to_string_lossy().contains("partial")),
        "{left:?}"
    );
}

#[test]
fn whoever_reads_an_export_may_have_enough() {
    let site = worked("sqlite:s.db");
    let mut child = site
        .command()
        .args(EXPORT)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("semel");
    drop(child.stdout.take());
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut said).expect("text");
    assert_eq!(
        (child.wait().expect("a child").code(), &*said),
        (Some(0), "")
    );
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    let mut command = site.command();
    let mut child = command
        .args(EXPORT)
        .stdout(full)
        .stderr(Stdio::null())
        .spawn()
        .expect("semel");
    assert_eq!(child.wait().expect("a child").code(), Some(3));
}

#[test]
fn a_store_that_is_missing_or_in_use_is_told() {
    for store in STORES {
        let site = fresh(store);
        site.semel(EXPORT).code(3).says("[store-unavailable]");
        site.semel(&["store", "export", "--to", "a.jsonl"]).code(3);
        assert!(!site.path("a.jsonl").exists());
    }
    let site = worked("embedded:data");
    site.semel(&["store", "export", "--to", "a.jsonl"]).done();
    let worker = worker(&site);
    // The worker hands it over.
    site.semel(EXPORT).done();
    site.semel(&["store", "import", "a.jsonl", "--yes"])
        .code(3)
        .says("[store-in-use]");
    drop(worker.1);
    let site = Site::new();
    site.semel(EXPORT).code(2).says("which store?");
    let mut file = std::fs::File::create(site.path("foreign")).expect("a file");
    file.write_all(b"something else, and long enough to be seen")
        .expect("a file");
    site.semel(&["store", "export", "--store", "sqlite:foreign"])
        .code(3);
}

#[test]
fn an_import_that_is_killed_is_finished_by_the_next() {
    let site = fresh("sqlite:s.db");
    let config = site.text("semel.toml");
    let from = config.find("effect =").expect("an effect");
    let config = format!(
        "{}effect = {{ kind = \"file\", path = \"out\" }}\n",
        &config[..from]
    );
    site.write("semel.toml", config);
    site.write(
        "in",
        lines(0..34_000, |id| format!("{{\"id\":\"pay-{id}\"}}")),
    );
    site.run().is(&[("applied", 34_000)]);
    site.semel(&["store", "export", "--to", "a.jsonl"]).done();
    for store in ["embedded:new", "sqlite:new.db"] {
        let import = ["store", "import", "a.jsonl", "--store", store, "--yes"];
        let running = site.start(&import);
        let path = store.split(':').nth(1).expect("a path");
        wait_for("the store to be made", || site.path(path).exists());
        running.signal(Signal::KILL);
        running.wait();
        site.semel(&import).done();
        assert_eq!(
            holdings(&site, store).len(),
            34_002,
            "with the mark and the entry"
        );
    }
}
