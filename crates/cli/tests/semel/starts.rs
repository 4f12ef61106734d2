//! A store on a server that goes away at any moment of a worker's start: the worker waits for it, and comes up.

use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::Signal;
use semel_conformance::proxy::Proxy;

use crate::mysql::Database;
use crate::postgres::Schema;
use crate::ready::Admin;
use crate::redis::Prefix;
use crate::servers::{place_of, runtime};
use crate::site::{Running, Site, WAITS, wait_for};

/// A store of one start, on a server.
pub(crate) trait Fresh {
    /// Makes one that nobody has.
    fn fresh() -> Self;

    /// Its url.
    fn store_url(&self) -> String;

    /// The statement of an effect that charges what has `:id`, if it takes any.
    fn statement(&self) -> Option<String>;

    /// The number of charges.
    fn charges(&self) -> u64;
}

/// The end of a worker's wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Its store comes back.
    Back,
    /// It is asked to stop.
    Stopped,
}

/// A worker that asks its store for all that a start can ask it: statements are prepared, and messages of producers read.
struct Worker<F> {
    store: F,
    admin: Admin,
    running: Running,
    site: Site,
    /// The messages that it was sent.
    sent: u64,
    /// Standard input has no end while this is there.
    _stdin: ChildStdin,
}

impl<F: Fresh> Worker<F> {
    fn start(store: F, url: &str, then: Then) -> Self {
        let (admin, port) = (Admin::new(), free_port::take().expect("a free port"));
        let further = store.statement().map(|statement| {
            format!(
                "[pipelines.charge]\nsource = {{ kind = \"file\", path = \"in\" }}\nkey = \"json:/id\"\n\
                 effect = {{ kind = \"sql\", statement = \"{statement}\" }}\n\
                 [pipelines.orders]\nkey = \"header:semel-id\"\nwindow = \"7d\"\n\
                 source = {{ kind = \"ingest\", listen = \"127.0.0.1:{port}\", path = \"/v1/ingest/orders\" }}\n\
                 effect = {{ kind = \"exec\", command = [\"true\"], on_doubt = \"repeat\" }}\n"
            )
        });
        let config = format!(
            "[store]\nurl = \"{url}\"\n{}[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n\
             effect = {{ kind = \"exec\", command = [\"sh\", \"-c\", 'echo $(cat) >> out'], on_doubt = \"repeat\" }}\n{}",
            admin.table(),
            further.unwrap_or_default()
        );
        // A stop would wait for the store with what is in hand.
        let (input, sent) = match then {
            Then::Back => ("{\"id\":\"a\"}\n", 1),
            Then::Stopped => ("", 0),
        };
        let site = Site::with(&[("semel.toml", &config), ("in", input), ("out", "")]);
        let mut command = site.command();
        command.args(["run", "--output", "json"]);
        let mut running = Running::start(command.stdin(Stdio::piped()));
        let mut stdin = running.take_stdin().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("a pipe");
        Self {
            store,
            admin,
            running,
            site,
            sent,
            _stdin: stdin,
        }
    }

    /// Tells whether it is ready, and has done what it was sent.
    fn is_up(&self) -> bool {
        let done = self.site.text("out").lines().count();
        let charges = self.store.statement().map_or(0, |_| self.sent);
        self.admin.ready().0 && done as u64 == self.sent && self.store.charges() == charges
    }

    /// Waits until something is so, while it runs.
    #[track_caller]
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        wait_for(what, || {
            let is_running = self.running.is_running();
            assert!(is_running, "{what}: {}", self.running.stderr());
            is_so(self)
        });
    }
}

/// Takes the store away instead of passing on an answer of a worker's start, by number; tells whether there were that many
/// before it was up.
fn is_played<F: Fresh>(cut: u64, then: Then) -> bool {
    let store = F::fresh();
    let (runtime, url) = (runtime(), store.store_url());
    let place = place_of(&url);
    let proxy = {
        let _runtime = runtime.enter();
        Proxy::start(place.parse().expect("an address and a port"))
    };
    let url = url.replace(&place, &proxy.address().to_string());
    proxy.cut_before_answer(cut);
    let mut worker = Worker::start(store, &url, then);
    worker.until("a cut, or a worker that is up", |worker| {
        proxy.seen().cuts > 0 || worker.is_up()
    });
    if proxy.seen().cuts == 0 {
        return false;
    }
    proxy.refuse(true);
    proxy.cut_now();
    worker.until("a word about it", |worker| {
        let told = worker.running.stderr();
        told.contains(WAITS) || told.contains("the store is away")
    });
    if then == Then::Back {
        proxy.heal();
        worker.until("a worker that is up", |worker| worker.is_up());
    }
    worker.running.signal(Signal::TERM);
    let ended = worker.running.wait().done();
    assert!(!ended.stderr.contains("error: "), "{cut}: {ended:?}");
    true
}

/// Plays every cut, a few at once.
fn are_played<F: Fresh>(then: Then) {
    let (next, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let cut = next.fetch_add(1, Ordering::Relaxed);
                    if !is_played::<F>(cut, then) {
                        is_over.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let played = next.load(Ordering::Relaxed);
    assert!(played > 10, "a start asks more than {played} times");
}

#[test]
fn a_worker_comes_up_whichever_answer_of_its_start_was_the_last_of_postgres() {
    are_played::<Schema>(Then::Back);
}

#[test]
fn a_worker_comes_up_whichever_answer_of_its_start_was_the_last_of_mysql() {
    are_played::<Database>(Then::Back);
}

#[test]
fn a_worker_comes_up_whichever_answer_of_its_start_was_the_last_of_redis() {
    are_played::<Prefix>(Then::Back);
}

#[test]
fn a_worker_that_waits_in_its_start_ends_well_when_asked_to() {
    are_played::<Schema>(Then::Stopped);
}
