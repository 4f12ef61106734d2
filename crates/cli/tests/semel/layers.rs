//! `fail`, `cache` and `approximate`: the layers between a pipeline and its store.

use serde_json::Value;

use crate::site::{Site, lines};

fn config(layers: &str, effect: &str) -> String {
    format!(
        "[store]\nurl = \"embedded:./data\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\n{layers}\neffect = {{ {effect} }}\nbatch = 100\n"
    )
}

const PRINTS: &str = "kind = \"stdout\", on_doubt = \"repeat\"";
const PARKS: &str = "kind = \"stdout\", on_doubt = \"park\"";

/// The summary of a run and the number of messages that it printed.
fn run(site: &Site) -> (Value, usize) {
    let ended = site.semel(&["run", "--output", "json"]).done();
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    let summary = lines.pop().expect("a summary");
    (
        serde_json::from_str(summary).expect("a summary"),
        lines.len(),
    )
}

#[test]
fn a_warm_cache_answers_duplicates_without_the_store() {
    let input = lines(0..500, |id| format!("{{\"id\":{id}}}"));
    let site = Site::with(&[("semel.toml", &config("", PARKS)), ("in", &input)]);
    let (first, printed) = run(&site);
    assert_eq!((printed, &first["cache"]), (500, &Value::Null));
    let cached = "cache = { size = \"8MiB\", warm = 10000 }";
    site.write("semel.toml", config(cached, PARKS));
    let (second, printed) = run(&site);
    assert_eq!(printed, 0);
    assert_eq!(second["replayed"], 500);
    let cache = &second["cache"];
    assert_eq!(
        (&cache["answered"], &cache["asked"]),
        (&500.into(), &0.into())
    );
    let told = site.semel(&["run"]).done();
    assert!(told.stdout.contains("cached            500"), "{told:?}");
    assert!(
        told.stderr.contains("the cache begins with 500 records"),
        "{told:?}"
    );
}

#[test]
fn a_cold_cache_loses_nothing_and_repeats_nothing() {
    let input = lines((0..300).chain(0..300).chain(0..300), |id| {
        format!("{{\"id\":{id}}}")
    });
    let site = Site::with(&[
        ("semel.toml", &config("cache = { size = \"1KiB\" }", PARKS)),
        ("in", &input),
    ]);
    let (summary, printed) = run(&site);
    assert_eq!((printed, &summary["replayed"]), (300, &600.into()));
    let kept = summary["cache"]["kept_bytes"].as_u64().expect("bytes");
    assert!(kept <= 1024, "{kept}");
}

#[test]
fn an_approximate_pipeline_skips_duplicates_and_says_how_wrong_it_is() {
    let input = lines((0..2_000).chain(0..2_000), |id| format!("{{\"id\":{id}}}"));
    let layers = "approximate = { keys = 10000, error_rate = \"0.1%\" }";
    let site = Site::with(&[("semel.toml", &config(layers, PRINTS)), ("in", &input)]);
    let (summary, printed) = run(&site);
    // One in a thousand may be lost, and by chance a few more.
    assert!((1_980..=2_000).contains(&printed), "{printed}");
    let filter = &summary["approximate"];
    assert_eq!(filter["declared_error_rate"], 0.001);
    assert!(filter["measured_error_rate"].as_f64().expect("a rate") < 0.01);
    assert!(filter["skipped"].as_u64().expect("a count") >= 2_000);
    // It says so before it runs, and remembers nothing beyond the run.
    let check = site.semel(&["check"]).done();
    assert!(check.stdout.contains("store-approximate"), "{check:?}");
    assert!(
        check.stdout.contains("unprotected: a filter in memory"),
        "{check:?}"
    );
    let told = site.semel(&["run"]).done();
    assert!(
        told.stderr
            .contains("APPROXIMATE: up to 0.1% of new keys are lost"),
        "{told:?}"
    );
    assert!(told.stdout.lines().count() > 1_980, "a restart forgets");
}

#[test]
fn layers_are_refused_where_the_class_promises_more() {
    let gate = "entity = \"json:/e\"\nversion = \"json:/v\"\n";
    for (layers, effect, why) in [
        (
            "fail = \"open\"",
            PARKS,
            "an effect that parks its doubts needs a store",
        ),
        ("fail = \"ajar\"", PRINTS, "`ajar` is unknown"),
        (
            "fail = \"open\"",
            "kind = \"file\", path = \"out\"",
            "a transactional effect needs a store",
        ),
        (
            "cache = { size = \"1MiB\" }",
            "kind = \"file\", path = \"out\"",
            "claims of a transactional effect are decided in the store's transaction",
        ),
        (
            "cache = { size = \"0B\" }",
            PARKS,
            "a cache of no size keeps nothing",
        ),
        (
            "cache = { fresh = \"2h\" }",
            PARKS,
            "must be from `1ms` to `1h`",
        ),
        ("cache = { sise = \"1MiB\" }", PARKS, "did you mean `size`?"),
        ("approximate = { keys = 10 }", PARKS, "`accept_loss = true`"),
        ("approximate = {}", PRINTS, "is missing"),
        (
            "approximate = { keys = 10 }",
            "kind = \"file\", path = \"out\"",
            "neither transactions nor marks",
        ),
        (
            "approximate = { keys = 10, error_rate = \"11%\" }",
            PRINTS,
            "at most `10%`",
        ),
        (
            "approximate = { keys = 10, error_rate = \"few\" }",
            PRINTS,
            "write it like `0.1%`",
        ),
        (
            "approximate = { keys = 10 }\ncache = { size = \"1MiB\" }",
            PRINTS,
            "answers from memory already",
        ),
        (
            &format!("{gate}approximate = {{ keys = 10 }}"),
            PRINTS,
            "an approximate store has no version gate",
        ),
        (
            &format!("{gate}fail = \"open\""),
            PRINTS,
            "a version gate needs a store",
        ),
    ] {
        let site = Site::with(&[("semel.toml", &config(layers, effect)), ("in", "")]);
        site.semel(&["run"]).code(2).says(why);
        assert!(!site.path("data").exists(), "nothing began: {layers}");
    }
    let accepted = "approximate = { keys = 10, accept_loss = true }";
    let site = Site::with(&[("semel.toml", &config(accepted, PARKS)), ("in", "")]);
    site.semel(&["run"]).done();
}
