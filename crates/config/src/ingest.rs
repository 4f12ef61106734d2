//! `[pipelines.NAME.source]` of kind `ingest`: the address and path that producers send messages to.

mod entrance;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semel_broker_webhook::{Entrance, IngestOptions, Token};

use super::fields::Fields;
use super::listener::{self, Certificate, host};
use super::webhook::{self, is_readable_by_others};

/// The path of a listener that producers send messages to.
#[derive(Clone, PartialEq, Eq)]
pub struct IngestSettings {
    /// The listener that its requests come to; other pipelines may share it.
    pub entrance: Entrance,
    /// The path, byte for byte.
    pub path: Box<str>,
    /// The certificate that producers see, that of the lender where the listener is lent; without one, they are answered in
    /// the clear.
    pub tls: Option<Certificate>,
    /// The tokens of which a request shows one; none means that whoever reaches the address may send.
    pub tokens: Vec<Token>,
    /// The file that they were read from.
    pub token_file: Option<PathBuf>,
    /// The names by which requests without a token call the listener, beside those of a loopback address.
    pub hosts: Vec<Box<str>>,
    /// True if messages without an identity are refused.
    pub is_required: bool,
    /// True if a producer that is not on record may begin with any sequence.
    pub is_any_first: bool,
    /// True if the `key` of the pipeline is the header `idempotency-key`: then a request with one has one message.
    pub is_key_whole: bool,
    /// The largest body of a request.
    pub max_body_bytes: u64,
    /// The number of messages that wait for their effects from which on requests are refused.
    pub max_waiting: u32,
    /// The number of producers from which on one that was not heard of is refused.
    pub max_producers: u32,
    /// The time for which the same message comes again under another sequence or key, if that is declared.
    pub retention: Option<Duration>,
    /// The time for which a producer is remembered after its last message; for ever, without one.
    pub forget_producers: Option<Duration>,
}

impl IngestSettings {
    /// Returns the file of the tokens if others than its owner can read or change it.
    pub fn exposed_tokens(&self) -> Option<&Path> {
        let file = self.token_file.as_deref()?;
        is_readable_by_others(file).then_some(file)
    }
}

/// Shows where producers send to.
impl fmt::Display for IngestSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let http = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "{http}://{}{}", self.entrance, self.path)
    }
}

impl fmt::Debug for IngestSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads the settings of a source.
pub(super) fn read(source: &mut Fields<'_>) -> Option<IngestSettings> {
    let entrance = entrance::read(source);
    let path = webhook::path(source);
    let tls = listener::tls_alone(source, "has no place here: `token_file` says who may send");
    let token_file = source.path("token_file");
    let is_guarded = source.node("token_file").is_some();
    let tokens = is_guarded.then(|| source.secret_lines("token_file", tokens_of));
    let hosts = source.words("hosts", host);
    if let Some(node) = source.node("hosts")
        && is_guarded
    {
        let message = "is for sources without `token_file`; who shows a token may call the listener by any name";
        source.fault("hosts", node, message);
    }
    if let (Some(entrance), Some(path)) = (entrance, &path) {
        entrance::check(source, entrance, path);
    }
    if let Some(Entrance::Own(listen)) = entrance
        && !is_guarded
        && !listen.ip().to_canonical().is_loopback()
    {
        let message = "other machines reach this address, and whoever does may send: set `token_file`, or listen at a \
                       loopback address";
        source.fault_at(&["listen"], message);
    }
    let max_body = u64::try_from(IngestOptions::MAX_BODY_BYTES).unwrap_or(u64::MAX);
    let max_body_bytes = source.size_bytes_or("max_body", max_body);
    if let Some(node) = source.node("max_body")
        && !MAX_BODIES.contains(&max_body_bytes)
    {
        source.fault("max_body", node, "must be from `1KiB` to `32MiB`");
    }
    let max_waiting = u32::try_from(IngestOptions::MAX_WAITING).unwrap_or(u32::MAX);
    let max_waiting = source.count_or("max_waiting", 10_000_000, max_waiting);
    let max_producers = u32::try_from(IngestOptions::MAX_PRODUCERS).unwrap_or(u32::MAX);
    let max_producers = source.count_or("max_producers", 1_000_000, max_producers);
    let is_required = source.boolean_or("require", false);
    let is_any_first = source.choice_or("first", ("one", false), &[("any", true)]);
    let retention = source.duration("retention");
    let forget_producers = source.duration("forget_producers");
    if let Some(node) = source.node("forget_producers")
        && forget_producers.is_some_and(|it| it < LEAST_MEMORY)
    {
        source.fault("forget_producers", node, "must be at least `1s`");
    }
    Some(IngestSettings {
        entrance: entrance?,
        path: path?,
        tls: tls?,
        tokens: match tokens {
            Some(tokens) => tokens?,
            None => Vec::new(),
        },
        token_file,
        hosts,
        is_required,
        is_any_first,
        is_key_whole: false,
        max_body_bytes,
        max_waiting,
        max_producers,
        retention,
        forget_producers,
    })
}

/// Reads tokens, one a line, each with the name of its client before it if there is one.
fn tokens_of(text: &str) -> Result<Vec<Token>, String> {
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty());
    let tokens = lines.map(|(at, line)| {
        let (client, line) = match line.split_once(char::is_whitespace) {
            Some((client, token)) => (Some(client), token.trim_start()),
            None => (None, line),
        };
        if client.is_some_and(|it| !is_client(it)) {
            return Err(format!(
                "has no name of a client in line {}: it has from 1 to {} letters, digits, `.`, `_` and `-`, so that no token \
                 is taken for one, and a space behind it",
                at + 1,
                LEAST_TOKEN_BYTES - 1
            ));
        }
        if line.len() < LEAST_TOKEN_BYTES || !line.bytes().all(|it| it.is_ascii_graphic()) {
            return Err(format!(
                "has no token in line {}: it has at least {LEAST_TOKEN_BYTES} printable characters of ASCII, and no spaces",
                at + 1
            ));
        }
        let token = Token::new(line);
        Ok(match client {
            Some(client) => token.of_client(client),
            None => token,
        })
    });
    let tokens: Vec<_> = tokens.collect::<Result<_, _>>()?;
    let clients = tokens.iter().filter_map(Token::client);
    if clients.collect::<BTreeSet<_>>().len() > MOST_CLIENTS {
        return Err(format!(
            "names more than {MOST_CLIENTS} clients, each of which is a label of the metrics"
        ));
    }
    if tokens.is_empty() {
        return Err("is empty; it holds a token a line".to_owned());
    }
    Ok(tokens)
}

/// Tells whether a word is the name of a client, which the metrics show: what may be a token is not.
fn is_client(name: &str) -> bool {
    let is_sound = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    (1..LEAST_TOKEN_BYTES).contains(&name.len()) && name.chars().all(is_sound)
}

const LEAST_MEMORY: Duration = Duration::from_secs(1);
const MOST_CLIENTS: usize = 100;
const MAX_BODIES: std::ops::RangeInclusive<u64> = 1 << 10..=32 << 20;
const LEAST_TOKEN_BYTES: usize = 16;

#[cfg(test)]
mod tests;
