//! The binary with real brokers: each message happens once and is acknowledged when it is recorded, through a
//! `kill -9` and through the absence of a broker.

use std::net::ToSocketAddrs;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;
use semel_conformance::proxy::Proxy;
use semel_core::port::sink::{Publication, Sink};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::claims::server::{Request, ask};
use crate::pauses::{gated, order};
use crate::ready::{Admin, Outage};
use crate::site::{Running, Site, Summary, wait_for};

#[cfg(feature = "amqp")]
pub(crate) mod amqp;
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats"))]
mod gate;
#[cfg(feature = "kafka")]
pub(crate) mod kafka;
#[cfg(feature = "nats")]
pub(crate) mod nats;
pub(crate) mod producer;
pub(crate) mod publish;
#[cfg(any(feature = "amqp", feature = "kafka-tls", feature = "nats"))]
mod tls;
mod traces;
mod window;

/// A queue, topic or stream of a broker that no other test uses.
pub(crate) trait Place {
    /// Creates it.
    fn new() -> Self;
    /// The table of the source, for the broker at `address`.
    fn source(&self, address: &str) -> String;
    fn address() -> String;
    /// Publishes these messages, and waits until each is confirmed.
    fn send(&self, batch: &[Publication]);
    /// Does so with these payloads.
    fn publish(&self, payloads: &[String]) {
        self.send(&publications(payloads));
    }
}

/// A proxy, and the runtime that moves its bytes.
pub(crate) struct Way {
    proxy: Proxy,
    _runtime: Runtime,
}

impl std::ops::Deref for Way {
    type Target = Proxy;

    fn deref(&self) -> &Proxy {
        &self.proxy
    }
}

impl Way {
    /// Makes a proxy to the server of this url; returns it with the url that leads through it.
    pub(crate) fn to(url: &str) -> (Self, String) {
        let behind = url.split_once("://").map_or(url, |(_, behind)| behind);
        let place = behind.rsplit_once('@').map_or(behind, |(_, place)| place);
        let place = place.split(['/', '?']).next().unwrap_or(place);
        let server = place.to_socket_addrs().expect("a place").next();
        let runtime = runtime();
        let entered = runtime.enter();
        let proxy = Proxy::start(server.expect("an address"));
        drop(entered);
        let url = url.replace(place, &proxy.address().to_string());
        let way = Self {
            proxy,
            _runtime: runtime,
        };
        (way, url)
    }
}

/// The tests of one kind of broker.
macro_rules! behind {
    ($place:ty) => {
        #[test]
        fn each_message_is_applied_once_and_acknowledged() {
            crate::brokers::each_message_is_applied_once_and_acknowledged::<$place>();
        }
        #[test]
        fn what_was_under_way_at_a_kill_is_applied_once() {
            crate::brokers::what_was_under_way_at_a_kill_is_applied_once::<$place>();
        }
        #[test]
        fn a_pipeline_that_is_paused_goes_on_where_it_was() {
            crate::brokers::a_pipeline_that_is_paused_goes_on_where_it_was::<$place>();
        }
        #[test]
        fn a_broker_that_is_absent_is_waited_for() {
            crate::brokers::a_broker_that_is_absent_is_waited_for::<$place>();
        }
        #[test]
        fn what_init_writes_runs() {
            crate::brokers::what_init_writes_runs::<$place>();
        }
    };
}
use behind;

/// The tests of a broker that a proxy can stand before. That of Kafka announces its own address; `torture` kills it
/// instead.
#[cfg(any(feature = "amqp", feature = "nats"))]
macro_rules! behind_a_proxy {
    ($place:ty) => {
        #[test]
        fn an_idle_worker_says_that_its_broker_is_gone_and_that_it_is_back() {
            crate::brokers::an_idle_worker_says_that_its_broker_is_gone_and_that_it_is_back::<$place>();
        }
    };
}
#[cfg(any(feature = "amqp", feature = "nats"))]
use behind_a_proxy;

fn each_message_is_applied_once_and_acknowledged<P: Place>() {
    let place = P::new();
    let site = site(&place, &P::address());
    place.publish(&payments((0..50).chain(20..30)));
    let summary = until(&site, 50, || {});
    assert_eq!(summary.count("applied"), 50, "{summary:?}");
    // Two messages of one key that are under way at once are looked at twice, and counted once.
    assert_eq!(summary.count("deliveries"), 60, "{summary:?}");
    assert_eq!(summary.count("replayed"), 10, "{summary:?}");
    // No message of them is left.
    place.publish(&payments(50..51));
    let summary = until(&site, 51, || {});
    summary.is(&[("deliveries", 1), ("applied", 1)]);
    each_is_there_once(&site, 51);
}

fn what_was_under_way_at_a_kill_is_applied_once<P: Place>() {
    let place = P::new();
    let site = site(&place, &P::address());
    place.publish(&payments(0..400));
    for kill in 1..=2 {
        let running = site.start(&["run"]);
        wait_for("some lines", || there(&site) >= kill * 40);
        running.signal(Signal::KILL);
        running.wait();
    }
    assert!(there(&site) < 400, "all were applied before the last kill");
    let summary = until(&site, 400, || {});
    assert_eq!(summary.count("in_doubt"), 0, "{summary:?}");
    each_is_there_once(&site, 400);
}

fn a_pipeline_that_is_paused_goes_on_where_it_was<P: Place>() {
    let place = P::new();
    let site = site(&place, &P::address());
    let admin = Admin::new();
    let handler = "kind = \"exec\", protocol = \"jsonl\", command = [\"python3\", \"-u\", \"handler.py\"], timeout = \"10m\"";
    let config = site.text("semel.toml");
    let config = config.replace("kind = \"file\", path = \"out\"", handler);
    site.write("semel.toml", format!("{config}\n{}", admin.table()));
    let orders = [("pause", "pausing", 20), ("drain", "draining", 200)];
    site.write("handler.py", gated(&orders.map(|(.., gate)| gate)));
    let is = |state: &str| {
        wait_for(state, || {
            admin.ready().1["pipelines"]["payments"]["state"] == state
        });
    };
    place.publish(&payments(0..600));
    let mut running = site.start(&["run", "--output", "json"]);
    for (verb, doing, gate) in orders {
        is("running");
        wait_for("some lines", || there(&site) >= gate);
        order(&site, verb, "payments");
        is(doing);
        site.write(&format!("open-{gate}"), "");
        is("paused");
        assert!(there(&site) < 600, "all were applied before the {verb}");
        if verb == "pause" {
            order(&site, "resume", "payments");
        }
    }
    let applied = there(&site);
    running.signal(Signal::KILL);
    wait_for("the end", || !running.is_running());
    place.publish(&payments(590..650));
    let running = site.start(&["run", "--output", "json"]);
    is("paused");
    assert_eq!(there(&site), applied);
    order(&site, "resume", "payments");
    wait_for("every line", || there(&site) >= 650);
    running.signal(Signal::TERM);
    let summary = running.wait().done().summary();
    assert_eq!(summary.count("takeovers"), 0, "{summary:?}");
    // The program itself was called once for each.
    each_is_there_once(&site, 650);
}

fn a_broker_that_is_absent_is_waited_for<P: Place>() {
    let place = P::new();
    let nobody = format!("127.0.0.1:{}", free_port::take().expect("a free port"));
    let site = site(&place, &nobody);
    let mut running = site.start(&["run", "--output", "json"]);
    let mut said = String::new();
    wait_for("a word about it", || {
        said.push_str(&running.stderr());
        said.contains("source-unavailable")
    });
    assert!(said.contains("trying again"), "{said}");
    assert!(running.is_running(), "it waits");
    running.signal(Signal::TERM);
    let ended = running.wait().done();
    ended.summary().is(&[("deliveries", 0)]);
}

#[cfg(any(feature = "amqp", feature = "nats"))]
fn an_idle_worker_says_that_its_broker_is_gone_and_that_it_is_back<P: Place>() {
    let (way, address) = Way::to(&P::address());
    let place = P::new();
    let site = site(&place, &address);
    let admin = Admin::new();
    let config = format!("{}\n{}", site.text("semel.toml"), admin.table());
    site.write("semel.toml", config);
    place.publish(&payments(0..5));
    let mut running = site.start(&["run"]);
    wait_for("what is there", || there(&site) == 5);
    let nothing_left = "semel_source_lag{pipeline=\"payments\"} 0";
    wait_for(nothing_left, || admin.shows(nothing_left));
    assert!(admin.shows("semel_source_connected{pipeline=\"payments\"} 1"));
    // AMQP does not tell how long a message stays.
    let is_told = !site.text("semel.toml").contains("amqp");
    let needed = "semel_window_needed_seconds{pipeline=\"payments\"} ";
    assert_eq!(admin.metrics().contains(needed), is_told);
    let pipelines = ask(admin.address().port(), &Request::get("/v1/pipelines")).body;
    let settings = pipelines["items"][0]["broker"].as_array();
    let is_whole = |it: &Value| {
        ["setting", "value", "meaning"]
            .iter()
            .all(|of| it[of].is_string())
    };
    let is_told = settings.is_some_and(|all| !all.is_empty() && all.iter().all(is_whole));
    assert!(is_told, "the settings of the broker: {pipelines}");
    let outage = Outage {
        pipeline: "payments",
        reason: "source-away",
        begins: "[source-unavailable]; trying again",
        ends: "payments: the broker is back after ",
    };
    let gauge = |is: u8| format!("semel_source_connected{{pipeline=\"payments\"}} {is}");
    outage.is_seen(
        &mut running,
        &admin,
        || {
            way.refuse(true);
            way.cut_now();
        },
        || {
            assert!(admin.shows(&gauge(0)));
            way.heal();
        },
    );
    assert!(admin.shows(&gauge(1)));
    place.publish(&payments(5..9));
    wait_for("the rest", || there(&site) == 9);
    running.signal(Signal::TERM);
    running.wait().done();
    each_is_there_once(&site, 9);
}

/// Runs the configuration and the sample of `semel init`, with the place of this test instead of the usual one.
fn what_init_writes_runs<P: Place>() {
    let place = P::new();
    let source = place.source(&P::address());
    let (plain, _) = source.split_once('[').unwrap_or((&source, ""));
    let settings = plain.lines().map(|line| {
        let (name, value) = line.split_once(" = ").expect("a setting");
        (name.to_uppercase(), value.trim_matches('"'))
    });
    let settings: Vec<_> = settings.collect();
    let site = Site::new();
    let (_, kind) = &settings[0];
    let init = ["init", "shop", "--source", kind, "--level", "intermediate"];
    site.semel(&init).done();
    let sample = site.text("shop/payments.ndjson");
    place.publish(&sample.lines().map(str::to_owned).collect::<Vec<_>>());
    let mut command = site.command();
    command.current_dir(site.path("shop"));
    for (name, value) in &settings {
        command.env(format!("SEMEL__PIPELINES__PAYMENTS__SOURCE__{name}"), value);
    }
    command.args(["run", "--output", "json"]);
    let running = Running::start(&mut command);
    let charged = site.path("shop/charged.ndjson");
    let lines = || {
        std::fs::read_to_string(&charged)
            .unwrap_or_default()
            .lines()
            .count()
    };
    wait_for("five charges", || lines() == 5);
    // The duplicates that follow write no line.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    running.signal(Signal::TERM);
    let counts = [
        ("applied", 5),
        ("replayed", 3),
        ("conflicts", 1),
        ("quarantined", 1),
    ];
    running.wait().done().summary().is(&counts);
    assert_eq!(lines(), 5);
}

/// Starts a run, waits until the output has `lines` lines, and asks for its end.
fn until(site: &Site, lines: usize, beside: impl FnOnce()) -> Summary {
    let running = site.start(&["run", "--output", "json"]);
    beside();
    wait_for("every line", || there(site) >= lines);
    // Duplicates write no line.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    running.signal(Signal::TERM);
    running.wait().done().summary()
}

fn there(site: &Site) -> usize {
    std::fs::read_to_string(site.path("out"))
        .unwrap_or_default()
        .lines()
        .count()
}

fn each_is_there_once(site: &Site, count: usize) {
    let mut expected = payments(0..count);
    expected.sort();
    assert_eq!(site.sorted_lines("out"), expected);
}

fn payments(ids: impl IntoIterator<Item = usize>) -> Vec<String> {
    ids.into_iter()
        .map(|id| format!("{{\"id\":\"pay-{id}\"}}"))
        .collect()
}

fn site(place: &impl Place, address: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"embedded:./store\"\n[pipelines.payments]\nkey = \"json:/id\"\nbatch = 10\nlease = \"2s\"\nwindow = \"30d\"\n\
         effect = {{ kind = \"file\", path = \"out\" }}\n[pipelines.payments.source]\n{}",
        place.source(address)
    );
    Site::with(&[("semel.toml", &config)])
}

fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("cli-{}-{number}", std::process::id())
}

fn server(variable: &str, service: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} names no server: run `cargo xtask services up {service}` and `source \
             target/services/env`"
        )
    })
}

pub(crate) fn runtime() -> Runtime {
    Runtime::new().expect("a runtime")
}

#[cfg(any(feature = "amqp", feature = "kafka-tls", feature = "nats"))]
async fn publish(sink: impl Sink, payloads: &[String]) {
    send(sink, &publications(payloads)).await;
}

async fn send(sink: impl Sink, batch: &[Publication]) {
    for confirmed in sink.publish(batch).await {
        confirmed.expect("it is with the broker");
    }
}

fn publications(payloads: &[String]) -> Vec<Publication> {
    let each = payloads.iter().enumerate();
    each.map(|(place, payload)| Publication {
        // Each message has an id of its own, so that the broker drops no duplicate.
        id: format!("{}-{place}", name()).into(),
        order: None,
        payload: payload.clone().into(),
        headers: Vec::new(),
    })
    .collect()
}
