//! `[pipelines.NAME.source]` of kind `webhook`: the address and path that a provider sends to, and its signatures.

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use semel_broker_webhook::{Encoding, Entrance, Options, Scheme, Verification};

use super::fields::Fields;
use super::listener::{self, Certificate, Door, host, meet};
use super::suggestion::suggestion;

/// The path of a listener that a provider sends to.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// The address to listen at; other pipelines may share it.
    pub listen: SocketAddr,
    /// The path, byte for byte.
    pub path: Box<str>,
    /// The certificate that providers see; without one, they are answered in the clear.
    pub tls: Option<Certificate>,
    /// The rules by which a request is genuine.
    pub verification: Verification,
    /// The file that the secrets of the signatures were read from; nothing if nothing is verified.
    pub secret_file: Option<PathBuf>,
    /// The names by which unsigned requests call the listener, beside those of a loopback address.
    pub hosts: Vec<Box<str>>,
    /// The largest body of a request.
    pub max_body_bytes: u64,
    /// The time within which a request is answered.
    pub answer_within: Duration,
    /// The greatest number of requests in hand.
    pub max_in_hand: u32,
    /// The time for which the provider sends a message again, if that is declared.
    pub retention: Option<Duration>,
}

impl WebhookSettings {
    /// Returns the key that the provider repeats when it sends a message again, as it is written; nothing if nobody
    /// knows.
    pub(super) const fn suggested_key(scheme: &Scheme) -> Option<&'static str> {
        match scheme {
            Scheme::GitHub => Some("\"header:x-github-delivery\""),
            Scheme::Stripe => Some("\"json:/id\""),
            Scheme::Standard => Some("\"header:webhook-id\""),
            Scheme::Slack => Some("\"json:/event_id\""),
            // What one action of a user sends to several topics has one event id.
            Scheme::Shopify => Some("[\"header:x-shopify-event-id\", \"header:x-shopify-topic\"]"),
            Scheme::Hmac { .. } | Scheme::None => None,
        }
    }

    /// Tells whether every program that reaches the address can send messages.
    pub fn is_open(&self) -> bool {
        *self.verification.scheme() == Scheme::None
    }

    /// Returns the file of the secrets if others than its owner can read or change it. In a folder that nobody else may
    /// enter, none can. A group that this process is in may read it: that is how an orchestrator hands a secret over
    /// (`fsGroup` in Kubernetes).
    pub fn exposed_secret(&self) -> Option<&Path> {
        let file = self.secret_file.as_deref()?;
        is_readable_by_others(file).then_some(file)
    }
}

/// Tells whether others than its owner can read or change a file.
pub(super) fn is_readable_by_others(file: &Path) -> bool {
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |it| it.permissions().mode());
    let Ok(resolved) = file.canonicalize() else {
        return false;
    };
    let mut folders = resolved.ancestors().skip(1);
    let is_reached = folders.all(|folder| mode(folder) & OTHERS_ENTER != 0);
    let found = std::fs::metadata(&resolved);
    let is_exposed =
        found.is_ok_and(|it| is_exposed(it.permissions().mode(), it.gid(), &own_groups()));
    is_reached && is_exposed
}

/// Shows where the provider sends to.
impl fmt::Display for WebhookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.verification.scheme().as_str();
        let http = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "{http}://{}{}, verify {scheme}", self.listen, self.path)
    }
}

impl fmt::Debug for WebhookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Tells whether a file with these rights and this group is exposed, for a process in these groups.
fn is_exposed(mode: u32, group: u32, own: &[u32]) -> bool {
    let granted = if own.contains(&group) { GROUP_READS } else { 0 };
    mode & OTHERS_USE & !granted != 0
}

/// The groups that this process is in.
fn own_groups() -> Vec<u32> {
    let more = rustix::process::getgroups().unwrap_or_default();
    let all = more.into_iter().chain([rustix::process::getegid()]);
    all.map(rustix::process::Gid::as_raw).collect()
}

/// Reads the settings of a source.
pub(super) fn read(source: &mut Fields<'_>) -> Option<WebhookSettings> {
    let listen = listen(source);
    let path = path(source);
    let why = "has no place here: the signatures of a provider say who it is";
    let tls = listener::tls_alone(source, why);
    let scheme = scheme(source);
    let verification = verification(source, scheme.as_ref());
    let secret_file = source.path("secret_file");
    let hosts = hosts(source, scheme.as_ref());
    let max_body = u64::try_from(Options::MAX_BODY_BYTES).unwrap_or(u64::MAX);
    let max_body_bytes = source.size_bytes_or("max_body", max_body);
    if let Some(node) = source.node("max_body")
        && !MAX_BODIES.contains(&max_body_bytes)
    {
        source.fault("max_body", node, "must be from `1KiB` to `256MiB`");
    }
    let usual = Options::answer_within(scheme.as_ref().unwrap_or(&Scheme::None));
    let answer_within = source.duration_or("answer_within", usual);
    if let Some(node) = source.node("answer_within")
        && !ANSWERS.contains(&answer_within)
    {
        source.fault("answer_within", node, "must be from `100ms` to `5m`");
    }
    let max_in_hand = u32::try_from(Options::MAX_IN_HAND).unwrap_or(u32::MAX);
    let max_in_hand = source.count_or("max_in_hand", 100_000, max_in_hand);
    let retention = source.duration("retention");
    Some(WebhookSettings {
        listen: listen?,
        path: path?,
        tls: tls?,
        verification: verification?,
        secret_file,
        hosts,
        max_body_bytes,
        answer_within,
        max_in_hand,
        retention,
    })
}

pub(super) fn listen(source: &mut Fields<'_>) -> Option<SocketAddr> {
    if !source.is_written("listen") {
        source.missing("listen");
    }
    source.parsed_with("listen", |text| {
        text.parse().map_err(|_| {
            "must be an address and a port, as in `127.0.0.1:8282`; `0.0.0.0:8282` for all addresses"
                .to_owned()
        })
    })
}

pub(super) fn path(source: &mut Fields<'_>) -> Option<Box<str>> {
    if !source.is_written("path") {
        source.missing("path");
    }
    source.parsed_with("path", |text| {
        let is_sound = |byte: u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte);
        if text.starts_with('/') && text.bytes().all(is_sound) {
            return Ok(text.into());
        }
        Err(format!(
            "`{text}` is no path; it begins with `/`, as in `/github`, and has no query; a space is `%20`"
        ))
    })
}

fn scheme(source: &mut Fields<'_>) -> Option<Scheme> {
    let header = source.text("header");
    let hex = ("hex", Encoding::Hex);
    let encoding = source.choice_or("encoding", hex, &[("base64", Encoding::Base64)]);
    let name = source.required_text("verify")?;
    if let Some(node) = source.node("header")
        && name != "hmac"
    {
        let message = "is for `verify = \"hmac\"`; the other providers have their own header";
        source.fault("header", node, message);
    }
    Some(match name {
        "github" => Scheme::GitHub,
        "stripe" => Scheme::Stripe,
        "standard" => Scheme::Standard,
        "slack" => Scheme::Slack,
        "shopify" => Scheme::Shopify,
        "none" => Scheme::None,
        "hmac" => {
            let Some(header) = header else {
                if !source.is_written("header") {
                    source.missing("header");
                }
                return None;
            };
            match Scheme::hmac(header, encoding) {
                Ok(scheme) => scheme,
                Err(why) => {
                    if let Some(node) = source.node("header") {
                        source.fault("header", node, why);
                    }
                    return None;
                }
            }
        }
        _ => {
            if let Some(node) = source.node("verify") {
                let hint = suggestion(name, &SCHEMES);
                source.fault("verify", node, format!("`{name}` is unknown; {hint}"));
            }
            return None;
        }
    })
}

fn verification(source: &mut Fields<'_>, scheme: Option<&Scheme>) -> Option<Verification> {
    let tolerance = source.duration_or("tolerance", Verification::TOLERANCE);
    if let Some(node) = source.node("tolerance")
        && !TOLERANCES.contains(&tolerance)
    {
        source.fault("tolerance", node, "must be from `1s` to `1d`");
    }
    let secret_file = source.node("secret_file");
    let scheme = scheme?;
    if *scheme == Scheme::None {
        if let Some(node) = secret_file {
            let message = "nothing is verified with it: `verify` says whose signatures are";
            source.fault("secret_file", node, message);
        }
        return Some(Verification::none());
    }
    if secret_file.is_none() {
        source.missing("secret_file");
        return None;
    }
    let read = |text: &str| Verification::new(scheme.clone(), text).map_err(|it| it.to_string());
    let verification = source.secret_lines("secret_file", read)?;
    Some(verification.with_tolerance(tolerance))
}

/// Reads the names by which the listener is called, where no signature says who calls.
fn hosts(source: &mut Fields<'_>, scheme: Option<&Scheme>) -> Vec<Box<str>> {
    let hosts = source.words("hosts", host);
    if let Some(node) = source.node("hosts")
        && scheme.is_some_and(|it| *it != Scheme::None)
    {
        let message =
            "is for `verify = \"none\"`; signed requests may call the listener by any name";
        source.fault("hosts", node, message);
    }
    hosts
}

/// Refuses a pipeline that every program of other machines could send messages to, unless that is accepted by name.
pub(super) fn check_open(fields: &Fields<'_>, source: &WebhookSettings, is_accepted: bool) {
    let is_reached = !source.listen.ip().to_canonical().is_loopback();
    if source.is_open() && is_reached && !is_accepted {
        let message = "nothing is verified, and other machines reach this address: name the provider, listen at a \
                       loopback address, or accept it with `accept = [\"webhook-unverified\"]` in the pipeline";
        fields.fault_at(&["source", "verify"], message);
    }
}

/// Checks the paths of all pipelines that listen together, and their addresses with those of the `other` listeners.
pub(super) fn check_together(
    fields: &Fields<'_>,
    webhooks: &[(&str, Door<'_>)],
    others: &[(&str, Option<SocketAddr>)],
) {
    for (at, (name, webhook)) in webhooks.iter().enumerate() {
        let fault = |setting: &str, message: String| {
            fields.fault_at(&["pipelines", name, "source", setting], message);
        };
        if let Entrance::Own(listen) = webhook.entrance {
            let met = others
                .iter()
                .filter_map(|(setting, other)| Some((setting, (*other)?)))
                .find(|(_, other)| meet(listen, *other));
            if let Some((setting, _)) = met {
                let lender = setting.split('.').next().unwrap_or_default();
                let message = if webhook.can_borrow && lender != "claims" {
                    format!(
                        "meets the address of `{setting}`; write `listen = \"{lender}\"` to have a path there, or set another port"
                    )
                } else {
                    format!("meets the address of `{setting}`; set another port")
                };
                fault("listen", message);
            }
        }
        for (other, earlier) in &webhooks[..at] {
            if webhook.entrance == earlier.entrance {
                if webhook.path == earlier.path {
                    let message = format!("`{other}` has this path at the same address");
                    fault("path", message);
                }
                if webhook.tls != earlier.tls {
                    let message =
                        format!("differs from that of `{other}`, which has the same address");
                    fault("tls", message);
                }
            } else if let (Entrance::Own(one), Entrance::Own(another)) =
                (webhook.entrance, earlier.entrance)
                && meet(one, another)
            {
                let message = format!(
                    "meets the address of `{other}`; write the same address to share it, or set another port"
                );
                fault("listen", message);
            }
        }
    }
}

/// The names of schemes, as they are written.
const SCHEMES: [&str; 7] = [
    "github", "stripe", "standard", "slack", "shopify", "hmac", "none",
];
/// The rights of others than the owner: to enter a folder, and to read or change a file.
const OTHERS_ENTER: u32 = 0o011;
const OTHERS_USE: u32 = 0o066;
const GROUP_READS: u32 = 0o040;
const MAX_BODIES: std::ops::RangeInclusive<u64> = 1 << 10..=256 << 20;
const ANSWERS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(300);
const TOLERANCES: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(86_400);

#[cfg(test)]
mod tests;
