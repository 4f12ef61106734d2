//! The binary with brokers that encrypt and authenticate clients: certificates named in the configuration, and
//! a message if they are missing.

use std::path::Path;

use rustix::process::Signal;
use semel_conformance::certificates::{Authority, Issued};

use super::{each_is_there_once, there};
use crate::site::{Site, wait_for};

#[cfg(feature = "amqp")]
mod amqp;
#[cfg(feature = "kafka-tls")]
mod authority;
#[cfg(feature = "kafka-tls")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;

/// A broker's authority, and our certificate.
struct Papers {
    authority: Authority,
    ours: Issued,
}

impl Papers {
    fn new() -> Self {
        let authority = Authority::new();
        let ours = authority.issue("worker", &[]);
        Self { authority, ours }
    }

    /// The table of a source that rustls encrypts.
    fn table(&self) -> String {
        format!(
            "tls = {{ ca = \"{}\", cert = \"{}\", key = \"{}\" }}\n",
            shown(&self.authority.path),
            shown(&self.ours.cert),
            shown(&self.ours.key)
        )
    }

    #[cfg(any(feature = "nats", feature = "amqp"))]
    fn known(&self) -> semel_tls::Tls {
        semel_tls::Tls {
            ca: Some(self.authority.path.clone()),
            cert: Some(self.ours.cert.clone()),
            key: Some(self.ours.key.clone()),
            server_name: None,
        }
    }
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}

/// Runs the payments of ids 0 to 19, which are with the broker, some of them twice. With our papers each is
/// applied once; without them none is, and the run says so.
fn each_is_applied_once(source: &str, papers: &str, words: &str) {
    let config = format!(
        "[store]\nurl = \"embedded:./store\"\n[pipelines.payments]\nkey = \"json:/id\"\nbatch = 10\nwindow = \"30d\"\n\
         effect = {{ kind = \"file\", path = \"out\" }}\n[pipelines.payments.source]\n{source}"
    );
    let site = Site::with(&[("semel.toml", &config)]);
    let mut stranger = site.start(&["run"]);
    let mut said = String::new();
    wait_for("a word about what is missing", || {
        // The run may report the silence before it knows the reason.
        said = stranger.stderr();
        said.contains(words) || !stranger.is_running()
    });
    if stranger.is_running() {
        stranger.signal(Signal::TERM);
    }
    let ended = stranger.wait();
    said.push_str(&ended.stderr);
    assert!(said.contains(words), "{said}");
    assert_eq!(there(&site), 0, "a stranger was let in");
    site.write("semel.toml", format!("{config}{papers}"));
    // `check` connects in the same way.
    let checked = site.semel(&["check"]);
    assert!(
        !checked.stdout.contains("source-unavailable"),
        "{checked:?}"
    );
    let running = site.start(&["run", "--output", "json"]);
    wait_for("every line", || there(&site) >= 20);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    running.signal(Signal::TERM);
    let summary = running.wait().done().summary();
    summary.is(&[("deliveries", 25), ("applied", 20), ("replayed", 5)]);
    each_is_there_once(&site, 20);
}
