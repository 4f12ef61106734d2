//! Tests for every kind of store on a server: a test of each kind passes in its url.

#![cfg_attr(
    not(any(feature = "mysql", feature = "redis")),
    expect(dead_code, reason = "PostgreSQL has tests of its own")
)]

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use semel_conformance::proxy::Proxy;
use tokio::runtime::Runtime;

use crate::gameday;
use crate::operator::{fresh, items, member, object, worked};
use crate::ready::{Admin, Outage};
use crate::site::{Ended, Running, Site, WAITS, ended_or_stopped, wait_for};
use crate::transfer::holdings;

/// Asserts that the password appears nowhere.
#[track_caller]
pub(crate) fn is_silent(ended: &Ended) {
    let Ended { stdout, stderr, .. } = ended;
    assert!(
        !stdout.contains(PASSWORD) && !stderr.contains(PASSWORD),
        "{ended:#?}"
    );
}

/// The ways to name the store to a verb.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    Config,
    File,
    Option,
    Glued,
    Variable,
}

/// Runs `semel` in the site, with its store named in that way.
pub(crate) fn told(site: &Site, url: &str, how: Told, arguments: &[&str]) -> Ended {
    Running::start(&mut command(site, url, how, arguments)).wait()
}

fn command(site: &Site, url: &str, how: Told, arguments: &[&str]) -> Command {
    let mut command = site.command();
    command
        .args(arguments)
        .env("RUST_BACKTRACE", "full")
        .env("RUST_LOG", "trace");
    match how {
        Told::Config => {}
        Told::File => {
            command.env("SEMEL__STORE__URL_FILE", "secret");
        }
        Told::Option => {
            command.args(["--store", url]);
        }
        Told::Glued => {
            command.arg(format!("--store={url}"));
        }
        Told::Variable => {
            command.env("SEMEL__STORE__URL", url);
        }
    }
    command
}

impl Told {
    pub(crate) const ALL: [Self; 5] = [
        Self::Config,
        Self::File,
        Self::Option,
        Self::Glued,
        Self::Variable,
    ];
}

/// Runs every verb on the store of this url, which has the password; leaves it with records.
#[track_caller]
pub(crate) fn no_verb_prints_the_password(url: &str, how: Told) {
    let place = match how {
        Told::Config => url,
        Told::File | Told::Option | Told::Glued | Told::Variable => "embedded:data",
    };
    let site = fresh(place);
    site.write("secret", url.to_owned() + "\n");
    site.write(
        "in",
        "{\"id\":\"done-1\"}\n{\"id\":\"dead-1\"}\n{\"id\":\"doubt-1\"}\nno\n",
    );
    for arguments in BATTERY {
        let arguments = on_config(how, arguments);
        let ended = told(&site, url, how, &arguments);
        is_silent(&ended);
        let code = ended.status.code();
        assert!(
            matches!(code, Some(0..=2)),
            "{how:?} {arguments:?}: {ended:#?}"
        );
    }
    let stats = told(&site, url, how, &["store", "stats", "--output", "json"]);
    let total = object(&stats.done())["records"]["total"].as_u64();
    assert!(
        total.is_some_and(|total| total >= 3),
        "{how:?}: it was this store"
    );
}

/// Fails in every way on such a url.
#[track_caller]
pub(crate) fn no_failure_prints_the_password(url: &str) {
    for how in Told::ALL {
        let place = match how {
            Told::Config => url,
            Told::File | Told::Option | Told::Glued | Told::Variable => "embedded:data",
        };
        let site = fresh(place);
        site.write("secret", url);
        for arguments in [
            &["config", "check"][..],
            &["config", "show", "--origin"],
            &["check"],
            &["run", "--log", "json", "--log-level", "decisions"],
            &["dedup", "in"],
            &["keys", "list"],
            &["keys", "list", "--no-such-option"],
            &["store", "migrate", "--yes"],
            &["store", "import", "in", "--yes"],
        ] {
            is_silent(&told_of_failure(
                &site,
                url,
                how,
                &on_config(how, arguments),
            ));
        }
    }
}

/// As [`told`], except that a run that waits for its store is asked to stop.
fn told_of_failure(site: &Site, url: &str, how: Told, arguments: &[&str]) -> Ended {
    ended_or_stopped(Running::start(&mut command(site, url, how, arguments)))
}

/// Begins a run while the server of this url, which lies at `place`, is away: the run says so once, waits, and
/// continues when the server is there.
#[track_caller]
pub(crate) fn a_store_that_is_away_is_waited_for(url: &str, place: &str) {
    let (_runtime, proxy, site) = absent(url, place);
    let mut running = site.start(&["run", "--output", "json"]);
    wait_for("a word about it", || running.stderr().contains(WAITS));
    // Verbs other than a run have a user who waits for an answer.
    for verb in [&["keys", "list"][..], &["check"], &["store", "stats"]] {
        let ended = site.semel(verb);
        assert!(!ended.status.success(), "{verb:?}: {ended:?}");
        assert!(!ended.stderr.contains(WAITS), "{verb:?}: {ended:?}");
    }
    std::thread::sleep(SOME_TRIES);
    assert!(running.is_running(), "it waits");
    let said = running.stderr();
    assert!(said.contains("[store-unavailable]; trying again"), "{said}");
    assert!(said.contains("cannot be reached"), "{said}");
    assert_eq!(said.matches(WAITS).count(), 1, "once is enough: {said}");
    proxy.refuse(false);
    let ended = running.wait().done();
    ended.summary().is(&[("deliveries", 2), ("applied", 2)]);
    ended.says("the store answers after");
    assert_eq!(site.sorted_lines("out").len(), 2);
}

/// Asks such a run to stop while it waits: that is a good end, too.
#[track_caller]
pub(crate) fn a_wait_for_the_store_ends_when_asked_to(url: &str, place: &str) {
    let (_runtime, proxy, site) = absent(url, place);
    let mut running = site.start(&["run", "--output", "json"]);
    wait_for("a word about it", || running.stderr().contains(WAITS));
    running.signal(Signal::TERM);
    let ended = running.wait().done();
    ended.summary().is(&[("deliveries", 0)]);
    assert!(!ended.stderr.contains("error: "), "{ended:?}");
    // All of it still has to be done.
    proxy.refuse(false);
    let again = site.semel(&["run", "--output", "json"]).done();
    again.summary().is(&[("deliveries", 2), ("applied", 2)]);
}

/// A run on the store of this url, behind a proxy that refuses every connection for now.
fn absent(url: &str, place: &str) -> (Runtime, Proxy, Site) {
    let runtime = runtime();
    let proxy = {
        let _runtime = runtime.enter();
        Proxy::start(place.parse().expect("an address and a port"))
    };
    proxy.refuse(true);
    let url = url.replace(place, &proxy.address().to_string());
    let config = format!(
        "[store]\nurl = \"{url}\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\nkey =          \"json:/id\"\neffect = {{ kind = \"exec\", command = [\"sh\", \"-c\", 'echo $(cat) >> out'], on_doubt          = \"repeat\" }}\n"
    );
    let site = Site::with(&[("semel.toml", &config), ("in", "{\"id\":1}\n{\"id\":2}\n")]);
    (runtime, proxy, site)
}

/// Plays the drill of an outage: the store is cut off by one command, and back after the other.
#[track_caller]
pub(crate) fn an_outage_is_played(url: &str) {
    let place = place_of(url);
    let runtime = runtime();
    let proxy = {
        let _runtime = runtime.enter();
        Proxy::start(place.parse().expect("an address and a port"))
    };
    let site = Site::new();
    let url = url.replace(&place, &proxy.address().to_string());
    let (broken, mended) = (site.path("broken"), site.path("mended"));
    let [break_it, mend_it] = [&broken, &mended].map(|it| format!("touch '{}'", it.display()));
    let drill = [
        "store-down",
        "--store",
        &url,
        "--break",
        &break_it,
        "--mend",
        &mend_it,
    ];
    let (code, report) = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_for("the command that breaks the store", || broken.exists());
            proxy.refuse(true);
            proxy.cut_now();
            wait_for("the command that mends the store", || mended.exists());
            proxy.heal();
        });
        let played = gameday::played(&site, &drill);
        // An early end leaves nobody waiting.
        for file in [&broken, &mended] {
            std::fs::write(file, "").expect("a file");
        }
        played
    });
    assert_eq!(gameday::failures(&report), [""; 0], "{report}");
    assert_eq!(code, 0, "{report}");
    assert_eq!(gameday::alerts(&report), ["SemelStoreDown"]);
}

/// A runtime for a proxy.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// `HOST:PORT` of the server of this url.
pub(crate) fn place_of(url: &str) -> String {
    let place = url.split_once("://").expect("a url").1;
    let place = place.split(['/', '?']).next().unwrap_or_default();
    let host = place.rsplit('@').next().unwrap_or_default();
    host.to_owned()
}

/// Long enough for two tries.
const SOME_TRIES: Duration = Duration::from_millis(2_500);

/// Returns the arguments with the configuration: `dedup` reads none that it is not given.
fn on_config<'a>(how: Told, arguments: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = arguments.to_vec();
    if arguments[0] == "dedup" && matches!(how, Told::Config) {
        arguments.extend(["--config", "semel.toml"]);
    }
    arguments
}

/// Transfers an embedded store to a server and back: everything is the same, and decisions stay as they are.
#[track_caller]
pub(crate) fn goes_there_and_back(url: &str) {
    let site = worked("embedded:data");
    let export = |store: &str, to: &str| {
        site.semel(&["store", "export", "--store", store, "--to", to])
            .done();
    };
    let import = |store: &str, from: &str| {
        site.semel(&["store", "import", from, "--store", store, "--yes"])
            .done();
    };
    let first = holdings(&site, "embedded:data");
    export("embedded:data", "first");
    import(url, "first");
    let import_entry = |item: &String| !item.contains("\"action\":\"import\"");
    let there: BTreeSet<_> = holdings(&site, url)
        .into_iter()
        .filter(import_entry)
        .collect();
    assert_eq!(there, first);
    export(url, "second");
    import("embedded:back", "second");
    let back = holdings(&site, "embedded:back");
    assert_eq!(
        back.into_iter()
            .filter(import_entry)
            .collect::<BTreeSet<_>>(),
        first
    );
    for store in [url, "embedded:back"] {
        let again = site
            .semel(&["run", "--store", store, "--output", "json"])
            .done();
        again.summary().is(&[
            ("replayed", 2),
            ("dead", 1),
            ("in_doubt", 2),
            ("conflicts", 1),
        ]);
    }
}

/// Runs every operating verb once.
#[track_caller]
pub(crate) fn every_verb_works(url: &str) {
    let site = worked(url);
    let run = |arguments: &[&str]| site.semel(arguments).done();
    assert_eq!(
        run(&["keys", "show", "done-1", "--outcome"]).stdout,
        "charged done-1"
    );
    assert!(
        run(&["keys", "explain", "doubt-1"])
            .stdout
            .contains("in doubt")
    );
    let keys = items(&run(&["keys", "list", "--output", "json"]));
    assert_eq!(
        member(&keys, "key"),
        ["dead-1", "done-1", "doubt-1", "doubt-2", "json:7"]
    );
    run(&["keys", "hold", "done-1", "--by", "ada", "--yes"]);
    run(&["keys", "forget", "json:7", "--by", "ada", "--yes"]);
    assert_eq!(site.state("json:7"), None);
    let doubts = items(&run(&["in-doubt", "list", "--output", "json"]));
    assert_eq!(member(&doubts, "key"), ["doubt-1", "doubt-2"]);
    run(&["in-doubt", "show", "doubt-1"]);
    let seen = ["--reason", "seen", "--by", "ada", "--yes"];
    run(&[&["in-doubt", "resolve", "doubt-1", "--applied"][..], &seen].concat());
    run(&[&["in-doubt", "resolve", "doubt-2", "--abandon"][..], &seen].concat());
    assert_eq!(site.state("doubt-1").as_deref(), Some("completed"));
    assert_eq!(site.state("doubt-2").as_deref(), Some("dead"));
    let payload = run(&["dead-letters", "show", "dead-1", "--payload"]);
    assert_eq!(payload.stdout.trim_end(), "{\"id\":\"dead-1\"}");
    let handler = site.text("handler.sh").replace("exit 3", "exit 0");
    site.write("handler.sh", handler);
    let replay = [
        "dead-letters",
        "replay",
        "dead-1",
        "--yes",
        "--output",
        "json",
    ];
    assert_eq!(object(&run(&replay))["applied"], 1);
    run(&["dead-letters", "drop", "--all", "--yes"]);
    let quarantined = items(&run(&["quarantine", "list", "--output", "json"]));
    let id = quarantined[0]["id"].as_str().expect("an id");
    run(&["quarantine", "show", id]);
    run(&["quarantine", "release", id, "--yes"]);
    run(&["quarantine", "drop", "--all", "--yes"]);
    let actions: Vec<_> = site
        .trail()
        .into_iter()
        .map(|[_, action, ..]| action)
        .collect();
    for action in ["hold", "forget"] {
        assert!(actions.iter().any(|known| known == action), "{actions:?}");
    }
    run(&["store", "sweep", "--yes"]);
    let stats = object(&run(&["store", "stats", "--output", "json"]));
    assert_eq!(
        (&stats["shared"], &stats["records"]["total"]),
        (&true.into(), &4.into())
    );
    // Tables beside those of the store are made, where a store has any.
    run(&["store", "migrate", "--yes"]);
    assert_eq!(
        run(&["store", "migrate"]).stdout,
        "nothing to do: the store has format 2\n"
    );
    let report = object(&run(&["check", "--output", "json"]));
    assert_eq!(report["store"]["is_there"], true);
    assert_eq!(report["store"]["survives"], "power-cut");
}

/// Checks that no verb that looks creates a store; a run and `store migrate --yes` do.
#[track_caller]
pub(crate) fn nobody_who_looks_makes_a_store(url: &str) {
    let site = fresh(url);
    for verb in [
        &["keys", "list"][..],
        &["keys", "forget", "a", "--yes"],
        &["in-doubt", "list"],
        &["dead-letters", "replay", "--all", "--yes"],
        &["quarantine", "list"],
        &["store", "stats"],
        &["store", "sweep"],
        &["store", "export"],
    ] {
        let ended = site.semel(verb).code(3).says("[store-unavailable]");
        assert!(ended.stderr.contains("semel store migrate"), "{ended:#?}");
    }
    site.semel(&["store", "migrate"])
        .code(1)
        .says("plan: make 1 store\n");
    let report = object(&site.semel(&["check", "--output", "json"]).done());
    assert_eq!(report["store"]["is_there"], false);
    let made = object(
        &site
            .semel(&["store", "migrate", "--yes", "--output", "json"])
            .done(),
    );
    assert_eq!(
        (&made["from"], &made["migrated"]),
        (&serde_json::Value::Null, &true.into())
    );
    site.semel(&["store", "stats"]).done();
}

/// Command lines that print something, right or wrong.
const BATTERY: &[&[&str]] = &[
    &["config", "check"],
    &["config", "check", "--output", "json"],
    &["config", "show", "--origin"],
    &["config", "show", "--origin", "--output", "json"],
    &["check"],
    &["check", "--output", "json", "--rate", "10"],
    &["store", "migrate"],
    &["store", "migrate", "--yes"],
    &["run"],
    &["run", "--log-level", "decisions"],
    &[
        "run",
        "--log",
        "json",
        "--log-level",
        "decisions",
        "--output",
        "json",
    ],
    &["run", "--log", "off", "--color", "always"],
    &["dedup", "in"],
    &["dedup", "in", "--summary", "-"],
    &["store", "stats"],
    &["store", "stats", "--output", "json"],
    &["store", "sweep"],
    &["store", "audit"],
    &["store", "export"],
    &["store", "export", "--to", "exported"],
    &["store", "import", "exported"],
    &["store", "import", "exported", "--yes"],
    &["keys", "list", "--output", "json"],
    &["keys", "show", "done-1"],
    &["keys", "explain", "done-1"],
    &["keys", "explain", "nobody"],
    &["keys", "forget", "done-1"],
    &["keys", "hold", "done-1", "--yes", "--by", "ada"],
    &["in-doubt", "list"],
    &["in-doubt", "show", "doubt-1"],
    &[
        "in-doubt",
        "resolve",
        "doubt-1",
        "--applied",
        "--reason",
        "seen",
    ],
    &["dead-letters", "list"],
    &["dead-letters", "show", "dead-1"],
    &["dead-letters", "replay", "--all"],
    &["dead-letters", "replay", "--all", "--yes", "--log", "json"],
    &["quarantine", "list"],
    &["quarantine", "drop", "--all"],
    // Mistakes on the command line repeat the typed words.
    &["run", "--no-such-option"],
    &["store", "stats", "surplus"],
    &["keys", "list", "--limit", "0"],
];

/// The password of the user that the tests make on each kind of server.
pub(crate) const PASSWORD: &str = "c4n4ry";
/// The name of that user.
pub(crate) const GUARDED: &str = "semel_guarded";

/// Checks that an idle worker turns not ready when its store goes, and ready when it is back, and reports each
/// once.
#[track_caller]
pub(crate) fn an_idle_worker_says_that_its_store_is_gone_and_that_it_is_back(
    url: &str,
    place: &str,
) {
    let (_runtime, proxy, site) = absent(url, place);
    proxy.refuse(false);
    let admin = Admin::new();
    let config = site.text("semel.toml");
    let config = config.replace("kind = \"file\", path = \"in\"", "kind = \"stdin\"");
    site.write("semel.toml", format!("{config}\n{}", admin.table()));
    let mut command = site.command();
    let mut running = Running::start(command.arg("run").stdin(Stdio::piped()));
    let outage = Outage {
        pipeline: "p",
        reason: "store-away",
        begins: "the store is away: ",
        ends: "the store answers again after ",
    };
    outage.is_seen(
        &mut running,
        &admin,
        || {
            proxy.refuse(true);
            proxy.cut_now();
        },
        || proxy.heal(),
    );
    running.signal(Signal::TERM);
    running.wait().done();
}
