//! `[relays.NAME]`: what publishes the messages that transactions wrote into an outbox.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semel_core::Scope;
use semel_outbox::Settings as Rules;
use semel_worker::effect::Target;
use semel_worker::effect::http::Settings as HttpSettings;

use super::diagnostics::Diagnostics;
use super::effect;
use super::fields::Fields;
use super::node::Node;
use super::paths;
use super::pipeline;
use super::secret::masked;
use super::show::join;
use super::sink::{self, TargetOf};
use super::store::{ServerKind, Servers, StoreUrl};
use super::suggestion::suggestion;

/// One relay.
#[derive(Clone)]
pub struct RelaySettings {
    /// Its name.
    pub name: Box<str>,
    /// The database with the outbox.
    pub store: StoreUrl,
    /// The stream that it publishes.
    pub stream: Box<str>,
    /// The place that it publishes to.
    pub sink: RelaySink,
    /// Its lease, its retries, and the time for which it keeps what is published.
    pub rules: Rules,
}

/// The place that a relay publishes to.
#[derive(Clone)]
pub enum RelaySink {
    /// A place of a broker.
    Broker(Arc<dyn Target>),
    /// A URL, which gets a request for each message.
    Http(HttpSettings),
    /// A file, to which each message is appended.
    File(PathBuf),
}

impl RelaySink {
    /// Returns its kind, one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Broker(target) => target.destination().system,
            Self::Http(_) => "http",
            Self::File(_) => "file",
        }
    }
}

/// Shows the sink without secrets, so that two of a name can be told apart.
impl fmt::Display for RelaySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broker(target) => match target.destination().server {
                Some((host, port)) => write!(f, "{target} at {host}:{port}"),
                None => write!(f, "{target}"),
            },
            Self::Http(settings) => write!(f, "{} {}", settings.method, masked(&settings.url)),
            Self::File(path) => write!(f, "file {}", path.display()),
        }
    }
}

/// The settings that all relays of a configuration share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'s> {
    /// The store of the whole configuration; none if it could not be read.
    pub(super) store: Option<&'s StoreUrl>,
    pub(super) servers: Servers,
    pub(super) target: TargetOf,
    /// The time that a publication under way has once a stop is asked for.
    pub(super) patience: Duration,
}

/// Reads `[relays]`; reports faults, and reads everything that can be read.
pub(super) fn read(fields: &mut Fields<'_>, shared: Shared<'_>) -> Vec<RelaySettings> {
    let Some(table) = fields.sub("relays") else {
        return Vec::new();
    };
    let mut relays = Vec::new();
    for (name, node) in table.entries() {
        relays.extend(one(name, node, shared, fields.found));
    }
    check_together(&table, &relays);
    relays
}

/// Reports a stream that two relays publish.
fn check_together(table: &Fields<'_>, relays: &[RelaySettings]) {
    let mut by_stream: BTreeMap<(String, &str), &str> = BTreeMap::new();
    for relay in relays {
        let whole = match &relay.store {
            StoreUrl::Server(url) => url.secret().to_owned(),
            other => other.absolute().to_string(),
        };
        if let Some(other) = by_stream.insert((whole, &relay.stream), &relay.name) {
            let message = format!(
                "is published by relay `{other}` as well; a stream has one relay, which may run on many machines"
            );
            table.fault_at(&[&relay.name, "stream"], message);
        }
    }
}

fn one(name: &str, node: &Node, shared: Shared<'_>, found: &Diagnostics) -> Option<RelaySettings> {
    let path = vec!["relays".to_owned(), name.to_owned()];
    let mut fields = Fields::of(node, path, found)?;
    if let Err(error) = Scope::new("", name) {
        let path = join(&fields.path);
        let message = error.to_string();
        found.fault(
            &node.origin,
            &path,
            semel_core::Code::InvalidConfig,
            message,
        );
    }
    let store = store(&mut fields, shared);
    let stream: Option<Box<str>> = fields.required_text("stream").map(Box::from);
    if let Some(stream) = &stream {
        let stream: &str = stream;
        if (stream.is_empty() || stream.len() > 255 || stream.contains('\0'))
            && let Some(node) = fields.node("stream")
        {
            fields.fault(
                "stream",
                node,
                "must have from 1 to 255 bytes, and no U+0000",
            );
        }
    }
    let sink = sink(&mut fields, shared.target);
    let lease = fields.duration_or("lease", LEASE);
    if let Some(node) = fields.node("lease")
        && !LEASES.contains(&lease)
    {
        fields.fault("lease", node, "must be from `3s` to `1h`");
    }
    let (attempts, backoff) = pipeline::tries(&mut fields);
    let keep = fields.duration("keep");
    if let Some(node) = fields.node("keep")
        && keep.is_some_and(|keep| keep.is_zero())
    {
        let message = "must be longer than zero; leave it out to remove what is published";
        fields.fault("keep", node, message);
    }
    fields.finish();
    Some(RelaySettings {
        name: name.into(),
        store: store?,
        stream: stream?,
        sink: sink?,
        rules: Rules {
            lease,
            attempts,
            backoff,
            keep,
            patience: shared.patience,
        },
    })
}

/// Reads the database of the outbox: by default the store of the whole configuration.
fn store(fields: &mut Fields<'_>, shared: Shared<'_>) -> Option<StoreUrl> {
    let parse = |text: &str| StoreUrl::parse(text, shared.servers);
    let written = fields.parsed_with("store", parse);
    let written = written.zip(fields.node("store"));
    let written = written.map(|(url, node)| url.written_in(node.origin.folder()));
    let of_file = fields.secret_file("store_file", "store", parse);
    let of_file = of_file.map(|url| match fields.path("store_file") {
        Some(file) => url.written_in(paths::folder(&file)),
        None => url,
    });
    if let (Some(node), Some(_)) = (fields.node("store"), fields.node("store_file"))
        && fields.is_written("store")
    {
        fields.fault("store", node, "either `store` or `store_file`, not both");
    }
    let is_own = fields.is_written("store") || fields.is_written("store_file");
    if !is_own && let Some(url) = shared.store {
        fields.default_from("store", url.to_string(), "store.url");
    }
    let url = if is_own {
        written.or(of_file)?
    } else {
        shared.store?.clone()
    };
    let has_outbox = match &url {
        StoreUrl::Server(server) => {
            matches!(server.kind(), ServerKind::Postgres | ServerKind::Mysql)
        }
        StoreUrl::Sqlite(_) => true,
        StoreUrl::Memory | StoreUrl::Embedded(_) => false,
    };
    if has_outbox {
        return Some(url);
    }
    let message = "an outbox is a table of the database that transactions write: `postgres://…`, `mysql://…` or \
                   `sqlite:…`";
    if is_own && let Some(node) = fields.node("store") {
        fields.unsupported("store", node, message);
    } else {
        fields.fault_at(&["store"], message);
    }
    None
}

fn sink(fields: &mut Fields<'_>, target: TargetOf) -> Option<RelaySink> {
    let mut table = fields.required_sub("sink")?;
    let kind = table.required_text("kind")?;
    let sink = match kind {
        "file" => table.required_path("path").map(RelaySink::File),
        "http" => {
            let mut settings = HttpSettings::new("");
            // Whoever honours the key says by 409 that a request with it is still under way.
            settings.is_keyed = true;
            effect::request(&mut table, settings).map(RelaySink::Http)
        }
        "kafka" | "nats" | "amqp" => sink::read(kind, &mut table, true)
            .map(target)
            .map(RelaySink::Broker),
        _ => {
            let kinds = [&["file", "http"][..], &sink::KINDS].concat();
            let message = format!("`{kind}` is no kind of sink; {}", suggestion(kind, &kinds));
            if let Some(node) = table.node("kind") {
                table.fault("kind", node, message);
            }
            return None;
        }
    };
    table.finish();
    sink
}

/// Short, since so long the messages of a process that was killed stay where they are.
const LEASE: Duration = Duration::from_secs(10);
const LEASES: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(3)..=Duration::from_secs(3_600);

#[cfg(test)]
mod tests;
