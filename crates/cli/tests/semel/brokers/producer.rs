//! `semel publish` to real brokers: killed and run again, frozen, fenced, with a broker that is away.

#[cfg(all(
    feature = "nats",
    any(feature = "mysql", feature = "postgres", feature = "redis")
))]
mod servers;
#[cfg(feature = "nats")]
mod silence;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use super::publish::{Message, Target, absent};
use super::runtime;
use crate::site::{Ended, Running, Site, killed_until_done, wait_for};

/// The tests of one kind of broker.
macro_rules! producing {
    ($name:ident, $place:ty) => {
        mod $name {
            #[test]
            fn a_file_is_published_once_with_the_identity_of_its_producer() {
                super::a_file_is_published_once_with_the_identity_of_its_producer::<$place>();
            }
            #[test]
            fn killed_and_run_again_it_goes_on() {
                super::killed_and_run_again_it_goes_on::<$place>("embedded:store");
            }
            #[test]
            fn a_broker_that_is_away_is_told_of_and_waited_for() {
                super::a_broker_that_is_away_is_told_of_and_waited_for::<$place>();
            }
            #[test]
            fn a_frozen_producer_keeps_its_messages_until_it_is_thawed() {
                super::a_frozen_producer_keeps_its_messages_until_it_is_thawed::<$place>(
                    "sqlite:s.db",
                );
            }
            #[test]
            fn a_place_that_is_missing_is_named_before_anything_is_kept() {
                super::a_place_that_is_missing_is_named_before_anything_is_kept::<$place>();
            }
        }
    };
}

#[cfg(feature = "kafka")]
producing!(kafka, crate::brokers::kafka::Topic);
#[cfg(feature = "nats")]
producing!(nats, crate::brokers::nats::Stream);
#[cfg(feature = "amqp")]
producing!(amqp, crate::brokers::amqp::Queue);

/// The arguments of a publication, with the rows of this file.
pub(crate) fn arguments<T: Target>(target: &T, address: &str, more: &[&str]) -> Vec<String> {
    let to = match (address.contains("://"), T::SYSTEM) {
        (true, _) => address.to_owned(),
        (false, "rabbitmq") => format!("amqp://guest:guest@{address}/%2f"),
        (false, system) => format!("{system}://{address}"),
    };
    let fixed = [
        "publish",
        "--to",
        &to,
        "--stream",
        target.name(),
        "--producer",
        "billing",
        "--order",
        "json:/customer",
        "--output",
        "json",
    ];
    fixed
        .iter()
        .chain(more)
        .map(|it| (*it).to_owned())
        .collect()
}

pub(crate) fn run(site: &Site, arguments: &[String]) -> Ended {
    site.semel(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn start(site: &Site, arguments: &[String]) -> Running {
    site.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The one object that a verb printed.
#[track_caller]
pub(crate) fn object(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("no object: {ended:#?}"))
}

pub(crate) fn show(site: &Site, store: &str) -> Value {
    let shown = site.semel(&[
        "producers",
        "show",
        "billing",
        "--output",
        "json",
        "--store",
        store,
    ]);
    serde_json::from_str(&shown.stdout).unwrap_or(Value::Null)
}

pub(crate) fn rows(ids: impl IntoIterator<Item = usize>) -> String {
    let row = |id| format!("{{\"id\":{id},\"customer\":\"c{}\"}}\n", id % CUSTOMERS);
    ids.into_iter().map(row).collect()
}

fn id_of(message: &Message) -> usize {
    let payload: Value = serde_json::from_str(&message.payload).expect("a row");
    let id = payload["id"].as_u64().expect("a number");
    usize::try_from(id).expect("a small one")
}

/// Checks what a reader that goes by ids sees: each row once, those of a customer in order; returns the number of repeats.
#[track_caller]
fn seen_once(messages: &[Message], count: usize) -> usize {
    let (mut seen, mut rows) = (BTreeMap::new(), BTreeSet::new());
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    let mut repeats = 0;
    for message in messages {
        let row = id_of(message);
        let identity = ["semel-producer", "semel-sequence"].map(|it| message.headers[it].clone());
        let id = message.headers["semel-id"].clone();
        if let Some(known) = seen.insert(id, (row, identity.clone())) {
            assert_eq!(known, (row, identity), "another message under the same id");
            repeats += 1;
            continue;
        }
        assert!(rows.insert(row), "row {row} has two ids");
        if let Some(before) = last.insert(row % CUSTOMERS, row) {
            assert!(before < row, "row {row} came after {before}");
        }
    }
    assert_eq!(rows.len(), count);
    repeats
}

fn a_file_is_published_once_with_the_identity_of_its_producer<T: Target>() {
    let (target, site) = (T::new(), Site::new());
    site.write("rows.ndjson", rows(0..300));
    let publish = arguments(
        &target,
        &T::address(),
        &["--store", "sqlite:s.db", "rows.ndjson"],
    );
    let tried = run(&site, &[&publish[..], &["--dry-run".to_owned()]].concat()).done();
    assert_eq!(object(&tried)["rows"], 300);
    assert!(!site.path("s.db").exists(), "a trial makes no store");
    let done = object(&run(&site, &publish).done());
    assert_eq!(
        (&done["published"], &done["epoch"]),
        (&300.into(), &1.into())
    );
    let again = run(&site, &publish).done().says("was published before");
    let again = object(&again);
    assert_eq!(
        (&again["published"], &again["skipped"]),
        (&0.into(), &300.into())
    );
    // The same file with more rows is another one: it has ids that tell what is known.
    let messages = target.read();
    assert_eq!(seen_once(&messages, 300), 0);
    let shown = show(&site, "sqlite:s.db");
    for (at, message) in messages.iter().enumerate() {
        let header = |name: &str| message.headers[name].clone();
        assert_eq!(
            header("semel-producer"),
            shown["id"].as_str().expect("an id")
        );
        assert_eq!(header("semel-epoch"), "1");
        if T::SYSTEM == "rabbitmq" {
            // One queue: all are in the order of the waves.
            let sequence: usize = header("semel-sequence").parse().expect("a number");
            assert_eq!(sequence, id_of(message) + 1, "place {at}");
        }
    }
    assert_eq!(shown["streams"][0]["confirmed"], 300);
    assert_eq!(
        (&shown["epoch"], &shown["frozen"]),
        (&2.into(), &false.into())
    );
}

fn killed_and_run_again_it_goes_on<T: Target>(store: &str) {
    let (target, site) = (T::new(), Site::new());
    // Each kill comes behind more rows than one may send again: whoever sends all of them again is seen. A queue is read
    // one message at a time, too slowly for as many.
    let (count, step) = match T::SYSTEM {
        "rabbitmq" => (9_000, 2_000),
        _ => (30_000, 6_000),
    };
    site.write("rows.ndjson", rows(0..count));
    let publish = arguments(&target, &T::address(), &["--store", store, "rows.ndjson"]);
    let publish: Vec<_> = publish.iter().map(String::as_str).collect();
    killed_until_done(&site, &publish, step, || {
        let shown = show(&site, store);
        let confirmed = shown["streams"][0]["confirmed"].as_u64().unwrap_or(0);
        usize::try_from(confirmed).expect("a small number")
    });
    let epoch = show(&site, store)["epoch"].as_u64().expect("an epoch");
    let repeats = seen_once(&target.read(), count);
    let most = usize::try_from(epoch - 1).expect("few") * MOST_OF_A_KILL;
    assert!(repeats <= most, "{repeats} repeats of at most {most}");
}

fn a_broker_that_is_away_is_told_of_and_waited_for<T: Target>() {
    let (target, site) = (T::new(), Site::new());
    let runtime = runtime();
    let proxy = absent(&runtime, &T::address());
    site.write("rows.ndjson", rows(0..50));
    let away = proxy.address().to_string();
    let mut running = start(&site, &arguments(&target, &away, &["rows.ndjson"]));
    let mut said = String::new();
    wait_for("a word about it", || {
        said.push_str(&running.stderr());
        said.contains("is away")
    });
    proxy.refuse(false);
    let done = object(&running.wait().done());
    assert_eq!(done["published"], 50);
    assert_eq!(seen_once(&target.read(), 50), 0);
}

fn a_frozen_producer_keeps_its_messages_until_it_is_thawed<T: Target>(store: &str) {
    let (target, site) = (T::new(), Site::new());
    let store = ["--store", store];
    let publish = |file| {
        run(
            &site,
            &arguments(&target, &T::address(), &[store[0], store[1], file]),
        )
    };
    let order = |verb| site.semel(&["producers", verb, "billing", store[0], store[1], "--yes"]);
    for (name, ids) in [("a", 0..5), ("b", 5..15), ("c", 15..20), ("d", 20..25)] {
        site.write(name, rows(ids));
    }
    publish("a").done();
    let plan = site.semel(&["producers", "freeze", "billing", store[0], store[1]]);
    assert!(plan.stderr.contains("plan: freeze 1 producer"), "{plan:#?}");
    assert_eq!(
        show(&site, store[1])["frozen"],
        false,
        "a plan changes nothing"
    );
    order("freeze").done();
    let is_plain = !store[1].contains('?');
    let quote = if is_plain { "" } else { "'" };
    let kept = publish("b").done().says("is frozen");
    let command = format!(
        "`semel producers thaw billing --yes --store {quote}{}{quote}`, and",
        store[1]
    );
    let kept = object(&kept.says(&command));
    assert_eq!(
        kept["warnings"],
        serde_json::json!([]),
        "nothing is promised less"
    );
    assert_eq!((&kept["published"], &kept["kept"]), (&0.into(), &10.into()));
    assert_eq!(target.read().len(), 5);
    assert_eq!(show(&site, store[1])["waiting"], 10);
    order("release").done();
    let let_out = object(&publish("c").done());
    assert_eq!(
        (&let_out["published"], &let_out["kept"]),
        (&10.into(), &5.into())
    );
    order("thaw").done();
    let all = object(&publish("d").done());
    assert_eq!(
        (&all["published"], &all["repeated"]),
        (&10.into(), &5.into())
    );
    let messages = target.read();
    assert_eq!(seen_once(&messages, 25), 0);
    order("release").code(1).says("is not frozen");
}

fn a_place_that_is_missing_is_named_before_anything_is_kept<T: Target>() {
    let site = Site::new();
    site.write("rows.ndjson", rows(0..5));
    let mut publish = arguments(&T::new(), &T::address(), &["rows.ndjson"]);
    "nobody-has-made-this".clone_into(&mut publish[4]);
    run(&site, &publish).code(2).says(T::NO_PLACE);
    assert!(!site.path(".semel-publish").exists());
}

#[cfg(feature = "nats")]
#[test]
fn what_the_broker_knew_by_its_id_is_counted() {
    use crate::brokers::{Place as _, nats::Stream};
    let (target, site) = (Stream::new(), Site::new());
    site.write("a", rows(0..300));
    site.write("b", rows(200..450));
    let counts = |store, file| {
        let with = ["--id", "json:/id", "--store", store, file];
        let arguments = arguments(&target, &Stream::address(), &with);
        let done = object(&run(&site, &arguments).done());
        ["published", "duplicates", "resent"].map(|it| done[it].as_u64().expect("a count"))
    };
    assert_eq!(counts("sqlite:one.db", "a"), [300, 0, 0]);
    // Another producer, which knows nothing of the first.
    assert_eq!(counts("sqlite:other.db", "b"), [250, 100, 0]);
    assert_eq!(target.read().len(), 450);
}

#[cfg(feature = "nats")]
#[test]
fn the_earlier_of_two_processes_with_one_name_is_fenced() {
    the_earlier_of_two_processes_is_fenced("sqlite:s.db");
}

#[cfg(feature = "nats")]
fn the_earlier_of_two_processes_is_fenced(store: &str) {
    let (target, site) = (<super::nats::Stream as super::Place>::new(), Site::new());
    let address = <super::nats::Stream as super::Place>::address();
    let publish = arguments(&target, &address, &["--store", store]);
    let mut command = site.command();
    let mut earlier = Running::start(command.args(&publish).stdin(Stdio::piped()));
    let mut input = earlier.input();
    input.write_all(rows(0..3).as_bytes()).expect("a pipe");
    input.flush().expect("a pipe");
    wait_for("its messages", || target.read().len() == 3);
    site.write("rows.ndjson", rows(3..6));
    run(&site, &[&publish[..], &["rows.ndjson".to_owned()]].concat()).done();
    input.write_all(rows(100..103).as_bytes()).expect("a pipe");
    drop(input);
    let fenced = earlier.wait().code(3);
    assert!(fenced.stderr.contains("[producer-fenced]"), "{fenced:#?}");
    assert_eq!(seen_once(&target.read(), 6), 0);
}

#[cfg(feature = "nats")]
#[test]
fn a_stop_leaves_the_rest_to_the_next_run() {
    let (target, site) = (<super::nats::Stream as super::Place>::new(), Site::new());
    let runtime = runtime();
    let address = <super::nats::Stream as super::Place>::address();
    let proxy = absent(&runtime, &address);
    site.write("rows.ndjson", rows(0..50));
    let away = proxy.address().to_string();
    let mut running = start(&site, &arguments(&target, &away, &["rows.ndjson"]));
    let mut said = String::new();
    wait_for("a word about it", || {
        said.push_str(&running.stderr());
        said.contains("waiting for it")
    });
    wait_for("its messages in the store", || {
        show(&site, "embedded:.semel-publish")["waiting"] == 50
    });
    running.signal(Signal::TERM);
    running.wait().code(1).says("run it again");
    proxy.refuse(false);
    let done = object(&run(&site, &arguments(&target, &away, &["rows.ndjson"])).done());
    assert_eq!(
        (&done["published"], &done["repeated"]),
        (&50.into(), &50.into())
    );
    assert_eq!(seen_once(&target.read(), 50), 0);
}

/// A broker that takes the connection and says nothing.
#[cfg(feature = "nats")]
#[test]
fn a_stop_before_the_broker_has_answered_ends_with_a_report() {
    let (silent, site) = (
        TcpListener::bind("127.0.0.1:0").expect("a port"),
        Site::new(),
    );
    let address = format!("nats://{}", silent.local_addr().expect("an address"));
    site.write("rows.ndjson", rows(0..3));
    let publish = |more: &[&str]| {
        let to = [
            "publish", "--to", &address, "--stream", "orders", "--output", "json",
        ];
        [&to, more]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let stopped = |running: Running| {
        // Who connects listens for a stop already.
        let _silent = silent.accept().expect("a connection");
        running.signal(Signal::TERM);
        let ended = running.wait().code(1);
        assert_eq!(object(&ended)["published"], 0, "{ended:?}");
        ended
    };
    stopped(start(&site, &publish(&["rows.ndjson"]))).says("run it again");
    let tried = stopped(start(&site, &publish(&["--dry-run", "rows.ndjson"])));
    let tried = tried.says("not all of rows.ndjson was looked at");
    assert_eq!(object(&tried)["dry_run"], true, "{tried:?}");
    let mut command = site.command();
    let mut running = Running::start(command.args(publish(&[])).stdin(Stdio::piped()));
    let _open = running.take_stdin();
    stopped(running).says("no row of standard input is taken");
}

/// Nobody ever writes to the pipe.
#[cfg(all(feature = "nats", target_os = "linux"))]
#[test]
fn a_stop_before_anybody_writes_to_a_named_pipe_ends_with_a_report() {
    let site = Site::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, site.path("pipe"), mode).expect("a pipe");
    let to = [
        "publish",
        "--to",
        "nats://127.0.0.1:1",
        "--stream",
        "orders",
        "--output",
        "json",
        "pipe",
    ];
    for (more, is_dry) in [(&[][..], false), (&["--dry-run"], true)] {
        let running = site.start(&[&to, more].concat());
        let status = format!("/proc/{}/status", running.id());
        wait_for("its handler of signals", || {
            let text = std::fs::read_to_string(&status).expect("a process");
            let caught = text.lines().find_map(|it| it.strip_prefix("SigCgt:"));
            let caught = u64::from_str_radix(caught.expect("a mask").trim(), 16);
            caught.expect("a number") & 1 << (Signal::TERM.as_raw() - 1) != 0
        });
        running.signal(Signal::TERM);
        let ended = running.wait().code(1);
        let ended = ended.says("no row of pipe is taken");
        let report = object(&ended);
        assert_eq!(report["published"], 0, "{ended:?}");
        assert_eq!(report["dry_run"], is_dry, "{ended:?}");
    }
}

#[cfg(feature = "nats")]
#[test]
fn a_stop_says_how_many_rows_of_a_pipe_are_taken() {
    let (target, site) = (<super::nats::Stream as super::Place>::new(), Site::new());
    let runtime = runtime();
    let address = <super::nats::Stream as super::Place>::address();
    let proxy = absent(&runtime, &address);
    let away = proxy.address().to_string();
    let mut command = site.command();
    let publish = arguments(&target, &away, &[]);
    let mut running = Running::start(command.args(&publish).stdin(Stdio::piped()));
    let mut input = running.input();
    // More than is handed over ahead: the rest waits in the pipe, and in the reader.
    let writer = std::thread::spawn(move || {
        let _ = input.write_all(rows(0..20_000).as_bytes());
    });
    wait_for("its first messages in the store", || {
        let waiting = show(&site, "embedded:.semel-publish")["waiting"].as_u64();
        waiting.is_some_and(|it| it >= 4_000)
    });
    running.signal(Signal::TERM);
    let stopped = running.wait().code(1);
    writer.join().expect("no panic");
    let taken = show(&site, "embedded:.semel-publish")["waiting"].clone();
    let words = format!("stopped behind row {taken} of standard input");
    assert!(stopped.stderr.contains(&words), "{taken}: {stopped:#?}");
    proxy.refuse(false);
    let rest = rows(usize::try_from(taken.as_u64().expect("a number")).expect("few")..20_000);
    site.write("rest.ndjson", rest);
    run(&site, &arguments(&target, &away, &["rest.ndjson"])).done();
    assert_eq!(seen_once(&target.read(), 20_000), 0);
}

#[cfg(feature = "nats")]
#[test]
fn what_cannot_be_published_is_refused_before_anything_is() {
    let (target, site) = (<super::nats::Stream as super::Place>::new(), Site::new());
    let address = <super::nats::Stream as super::Place>::address();
    site.write("bad.ndjson", rows(0..3) + "{\"id\":3}\n" + &rows(4..6));
    let with = |more: &[&str]| run(&site, &arguments(&target, &address, more));
    let refused = with(&["bad.ndjson"]).code(1).says("[row-unpublishable]");
    assert!(
        refused
            .stderr
            .contains("bad.ndjson, line 4: --order json:/customer")
    );
    assert_eq!(target.read().len(), 0);
    // From a pipe, what came before it is published.
    let mut command = site.command();
    let publish = arguments(&target, &address, &[]);
    let mut running = Running::start(command.args(&publish).stdin(Stdio::piped()));
    let mut input = running.input();
    input
        .write_all(site.text("bad.ndjson").as_bytes())
        .expect("a pipe");
    drop(input);
    let ended = running.wait().code(1).says("standard input, line 4");
    let ended = ended.says("send the input again from this line on");
    assert!(ended.stdout.contains("\"published\":3,"), "{ended:?}");
    assert_eq!(seen_once(&target.read(), 3), 0);
    with(&["--store", "memory:", "bad.ndjson"])
        .code(2)
        .says("keeps no producers")
        .says("[unsupported]");
    with(&["--producer", "a b", "bad.ndjson"]).code(2);
    with(&["missing.ndjson"])
        .code(3)
        .says("[source-unavailable]");
    site.semel(&["publish", "--to", "nast://x", "--stream", "s", "bad.ndjson"])
        .code(2)
        .says("did you mean `nats`");
}

const MOST_OF_A_KILL: usize = 4_000;
const CUSTOMERS: usize = 997;
