//! The notices of a supervisor in words.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use semel_backends::store;
use semel_config::{Accepted, Front, GatewaySettings, PipelineSettings, RouteSettings, StoreUrl};
use semel_core::outbox::PARTITIONS;
use semel_core::{Code, TraceContext};
use semel_engine::pipeline::Fail;
use semel_gateway::OnOutage;
use semel_operate::check::window::Gate;
use semel_operate::pipelines::{OrderedPause, PauseKind};
use semel_operate::shell::quoted_path;
use semel_outbox::Event;
use semel_supervisor::event_log::lasted_text;
use semel_supervisor::{Keys, Notice, Protection};

use super::summary;
use crate::{self as output, Level};

/// Prints a notice while no bar is shown.
pub fn print(notice: &Notice<'_>) {
    match text(notice) {
        Some((Level::Info, text)) => output::note(text),
        Some((Level::Warning | Level::Error, text)) => output::warning(text),
        None => {}
    }
}

/// The importance and the words of a notice; nothing of one that only moves a bar.
pub fn text(notice: &Notice<'_>) -> Option<(Level, String)> {
    let warning = |text| Some((Level::Warning, text));
    let note = |text| Some((Level::Info, text));
    match *notice {
        Notice::StoreAway(error) => warning(format!("{error} [{}]; trying again", error.code())),
        Notice::StoreBack { lasted } => note(store_back(lasted)),
        Notice::StoreBroughtForward { url, from, to } => warning(forward(url, from, to)),
        Notice::StoreHolds { url, keys } => {
            note(format!("store {}: {}", url.absolute(), count(keys)))
        }
        Notice::StoreWarning { url, warning: text } => warning(format!("store {url}: {text}")),
        Notice::StoreExposed { url } => {
            let exposed = store::exposed(url)?;
            let hide = store::hide(url)?;
            warning(format!(
                "store {url}: {exposed}; take the right away: {hide}"
            ))
        }
        Notice::Durability {
            pipeline,
            is_accepted: true,
            why,
        } => warning(format!("{pipeline}: accepted by `store.accept`: {why}")),
        Notice::Durability { pipeline, why, .. } => warning(format!("{pipeline}: {why}")),
        Notice::NoOrders(error) => warning(format!(
            "{error}; verbs that change the store want this worker stopped"
        )),
        Notice::Claimant(claimant) => note(format!("worker {claimant}")),
        Notice::BrokerSilent { pipeline, within } => warning(format!(
            "{pipeline}: no answer from the broker within {} s [{}]; waiting for it",
            within.as_secs(),
            Code::SourceUnavailable
        )),
        Notice::BrokerWarning {
            pipeline,
            warning: text,
        } => warning(format!("{pipeline}: {text}")),
        Notice::Window {
            pipeline,
            is_accepted,
            why,
        } => warning(window(pipeline, is_accepted, why)),
        Notice::Begins {
            settings,
            accepted,
            gate,
        } => note(banner(settings, accepted, gate)),
        Notice::CacheFilled { pipeline, records } => note(format!(
            "{pipeline}: the cache begins with {records} records"
        )),
        Notice::CacheEmpty { pipeline, error } => {
            warning(format!("{pipeline}: the cache begins empty: {error}"))
        }
        Notice::TransactionsAlternate { pipeline, error } => warning(format!(
            "{pipeline}: one transaction is written after the other: {error}"
        )),
        Notice::TransactionsOverlap { pipeline } => note(format!(
            "{pipeline}: a transaction is written while the one before is committed"
        )),
        Notice::CollectorAway { .. }
        | Notice::CollectorTookPart { .. }
        | Notice::SpansOverflow
        | Notice::TelemetryVariable { .. }
        | Notice::CollectorBack { .. }
        | Notice::SpansLost { .. } => of_traces(notice),
        Notice::ClaimsServed {
            address,
            is_encrypted,
            protection,
        } => Some(served(address, is_encrypted, protection)),
        Notice::WebhooksTaken { .. } | Notice::MessagesTaken { .. } => note(taken(notice)?),
        Notice::SecretExposed { pipeline, file } => warning(secret_exposed(pipeline, file)),
        Notice::RelayBegins(relay) => note(format!(
            "relay {}: stream {} of {} to {}",
            relay.name, relay.stream, relay.store, relay.sink
        )),
        Notice::Relay { relay, event } => of_relay(relay, event),
        Notice::ApiServed { address, gateway } => note(api_served(address, gateway)),
        Notice::ProducersUnread(error) => warning(producers_unread(error)),
        Notice::TokensChanged { count } => note(tokens_changed(count)),
        Notice::TokensUnreadable(error) => warning(format!(
            "{error}; the tokens that were known before stay good"
        )),
        Notice::Pausing { .. }
        | Notice::Paused { .. }
        | Notice::Resumed { .. }
        | Notice::CannotGoOn { .. }
        | Notice::GoesOn { .. }
        | Notice::PausesUnread(_)
        | Notice::RelayOrdersUnread(_)
        | Notice::NoRelayOrders(_) => of_pause(notice),
        Notice::Ended {
            pipeline,
            is_failed: true,
        } => note(format!("{pipeline}: stopped by an error")),
        Notice::Ended { .. } | Notice::Restoring { .. } | Notice::Restored { .. } => None,
    }
}

fn window(pipeline: &str, is_accepted: bool, why: &str) -> String {
    let accepted = if is_accepted {
        "accepted by `accept`: "
    } else {
        ""
    };
    format!("{pipeline}: {accepted}{why}")
}

fn producers_unread(error: &semel_core::Error) -> String {
    format!(
        "what waits in the store for producers is not told whole at `/metrics`: {error} [{}]; trying again from time to \
         time",
        error.code()
    )
}

fn store_back(lasted: std::time::Duration) -> String {
    format!("the store answers after {}", lasted_text(lasted))
}

/// The importance and the words of a notice about a pause; nothing of any other.
fn of_pause(notice: &Notice<'_>) -> Option<(Level, String)> {
    let text = match *notice {
        Notice::Pausing { pipeline, pause } => pausing(pipeline, pause),
        Notice::Paused { pipeline, pause } => format!(
            "{pipeline}: {}{}; to go on: semel pipelines resume {pipeline}",
            done(pause.kind),
            ordered(pause)
        ),
        Notice::Resumed { pipeline } => format!("{pipeline}: runs again"),
        Notice::CannotGoOn { pipeline, error } => {
            let code = error.code();
            let text = format!("{pipeline}: cannot go on: {error} [{code}]; trying again");
            return Some((Level::Warning, text));
        }
        Notice::GoesOn { pipeline, lasted } => {
            format!("{pipeline}: goes on after {}", lasted_text(lasted))
        }
        Notice::PausesUnread(error) => {
            let text = format!(
                "the orders that pause pipelines cannot be read: {error} [{}]; those that were known stand; trying again",
                error.code()
            );
            return Some((Level::Warning, text));
        }
        Notice::RelayOrdersUnread(error) => {
            let text = format!(
                "the orders that pause relays cannot be read: {error} [{}]; those that were known stand, and all other \
                 relays run",
                error.code()
            );
            return Some((Level::Warning, text));
        }
        Notice::NoRelayOrders(store) => {
            let text = format!(
                "no store is seen beside the outbox of {store}, so that no order pauses its relays; it may be missing \
                 (`semel store migrate --yes --store URL`), or hidden from the user of the relay"
            );
            return Some((Level::Warning, text));
        }
        _ => return None,
    };
    Some((Level::Info, text))
}

/// The words for an order that is being carried out.
fn pausing(pipeline: &str, pause: &OrderedPause) -> String {
    let does = match pause.kind {
        PauseKind::Pause => "what runs is finished",
        PauseKind::Drain => "what is in hand is finished",
    };
    format!(
        "{pipeline}: is {}{}; {does}, and nothing more is taken in",
        done(pause.kind),
        ordered(pause)
    )
}

/// The word for what an order does to a pipeline.
const fn done(kind: PauseKind) -> &'static str {
    match kind {
        PauseKind::Pause => "paused",
        PauseKind::Drain => "drained",
    }
}

/// The author of an order and the reason, as they follow the order in a sentence.
fn ordered(pause: &OrderedPause) -> String {
    let by = Some(&*pause.by).filter(|it| !it.is_empty());
    let by = by.map_or_else(String::new, |by| format!(" by {by}"));
    let reason = Some(&*pause.reason).filter(|it| !it.is_empty());
    reason.map_or_else(|| by.clone(), |reason| format!("{by}: {reason}"))
}

/// The importance and the words of a notice about traces; nothing of any other.
fn of_traces(notice: &Notice<'_>) -> Option<(Level, String)> {
    let warning = |text| Some((Level::Warning, text));
    match *notice {
        Notice::CollectorAway { why } => warning(format!(
            "traces: {why}; spans are lost until the collector takes them"
        )),
        Notice::CollectorTookPart { why } => {
            warning(format!("traces: the collector rejects spans: {why}"))
        }
        Notice::SpansOverflow => {
            warning("traces: more spans than the collector takes; some are lost".to_owned())
        }
        Notice::TelemetryVariable { why } => warning(format!("traces: {why}")),
        Notice::CollectorBack { lost } => Some((
            Level::Info,
            format!("traces: the collector takes spans again; {lost} were lost"),
        )),
        Notice::SpansLost { lost } => {
            warning(format!("traces: {lost} spans did not reach the collector"))
        }
        _ => None,
    }
}

/// Returns the span that a notice is about, if it is about one.
pub const fn span(notice: &Notice<'_>) -> Option<TraceContext> {
    match notice {
        Notice::Relay {
            event: Event::Dead { span, .. },
            ..
        } => *span,
        _ => None,
    }
}

/// The line about an event of a relay; nothing of what only counts.
fn of_relay(relay: &str, event: &Event<'_>) -> Option<(Level, String)> {
    let (level, text) = match event {
        Event::Leased { partitions } => {
            let text = format!("publishes {partitions} of {PARTITIONS} partitions");
            (Level::Info, text)
        }
        Event::Fenced { partitions } => {
            let text = format!(
                "leases of {partitions} partitions ran out or went to another process; what was published meanwhile may go \
                 out again, under the same ids"
            );
            (Level::Warning, text)
        }
        Event::Unrecorded { count, error } => {
            let text = format!(
                "{count} messages are published, and the outbox did not take that: {error} [{}]; they go out again, under \
                 the same ids",
                error.code()
            );
            (Level::Warning, text)
        }
        Event::Dead { id, error, .. } => (Level::Warning, format!("message {id} is dead: {error}")),
        Event::SinkAway { error } => {
            let text = format!("{error} [{}]; messages wait", error.code());
            (Level::Warning, text)
        }
        Event::SinkBack { lasted } => {
            let text = format!(
                "the sink takes messages again after {}",
                lasted_text(*lasted)
            );
            (Level::Info, text)
        }
        Event::OutboxAway { error } => {
            let text = format!("{error} [{}]; trying again", error.code());
            (Level::Warning, text)
        }
        Event::OutboxBack { lasted } => {
            let text = format!("the outbox answers after {}", lasted_text(*lasted));
            (Level::Info, text)
        }
        _ => return None,
    };
    Some((level, format!("relay {relay}: {text}")))
}

/// The line that says where requests are taken; nothing of any other notice.
fn taken(notice: &Notice<'_>) -> Option<String> {
    match notice {
        Notice::WebhooksTaken { pipeline, webhook } => {
            Some(format!("{pipeline}: takes webhooks at {webhook}"))
        }
        Notice::MessagesTaken { pipeline, ingest } => {
            Some(format!("{pipeline}: takes messages at {ingest}"))
        }
        _ => None,
    }
}

/// The warning that other users of this machine can sign requests, with the command that takes the right away.
fn secret_exposed(pipeline: &str, file: &Path) -> String {
    format!(
        "{pipeline}: other users of this machine can read or change {}, and so sign requests; take the right away: chmod \
         go= {}",
        file.display(),
        quoted_path(file)
    )
}

/// The line that says where claims are served, and what protects them.
fn served(address: SocketAddr, is_encrypted: bool, protection: Protection<'_>) -> (Level, String) {
    let scheme = if is_encrypted { "https" } else { "http" };
    let place = format!("claims: {scheme}://{address}/v1/claims");
    match protection {
        Protection::Loopback => (
            Level::Info,
            format!("{place}, open to every program of this machine"),
        ),
        Protection::Tokens { file, usable: 0 } => (
            Level::Warning,
            format!(
                "{place}, for nobody: every token in {} has expired",
                file.display()
            ),
        ),
        Protection::Tokens { file, usable } => {
            let noun = if usable == 1 { "token" } else { "tokens" };
            let file = file.display();
            (
                Level::Info,
                format!("{place}, for {usable} {noun} in {file}"),
            )
        }
    }
}

fn tokens_changed(count: usize) -> String {
    let noun = if count == 1 { "token" } else { "tokens" };
    format!("the file of tokens has {count} {noun} now")
}

/// The line that says where an API is served, and what it weakens.
fn api_served(address: SocketAddr, gateway: &GatewaySettings) -> String {
    let scheme = if gateway.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let upstreams = gateway.upstreams.join(", ");
    // The last is that of all paths that no other has.
    let routes = match gateway.routes.len().saturating_sub(1) {
        0 => String::new(),
        1 => ", 1 route".to_owned(),
        count => format!(", {count} routes"),
    };
    let any = |is: fn(&RouteSettings) -> bool| gateway.routes.iter().any(is);
    let shadow = if any(|it| it.route.shadow) {
        "; in shadow, some requests pass unchanged"
    } else {
        ""
    };
    let open = if any(|it| it.route.fail == OnOutage::Open) {
        "; FAILS OPEN: without its store, some requests pass unprotected"
    } else {
        ""
    };
    format!("gateway: {scheme}://{address} before {upstreams}{routes}{shadow}{open}")
}

/// The warning that opening a store changed its format.
fn forward(url: &StoreUrl, from: i64, to: i64) -> String {
    format!(
        "{url} was brought forward from format {from} to format {to}; versions of semel that write format {from} \
         cannot open it any more"
    )
}

/// The line that announces a pipeline when it starts.
fn banner(settings: &PipelineSettings, accepted: Accepted, gate: Gate) -> String {
    let PipelineSettings {
        pipeline, effect, ..
    } = settings;
    let class = summary::class(effect.class());
    let gate = match gate {
        Gate::Birth => "age gate: on",
        Gate::Appended => "age gate: on, by the broker's time",
        Gate::Off => {
            "age gate: off (no `birth`; a message that comes again after the window counts as new)"
        }
    };
    let mut banner = format!(
        "{}: {class}, window {}, {gate}",
        pipeline.name,
        days(pipeline.window.duration())
    );
    for name in accepted.names().into_iter().chain(settings.waived.names()) {
        banner.extend(["; accepted: ", name]);
    }
    match &settings.layers.front {
        Front::None => {}
        Front::Cache(_) => banner.push_str("; with a cache"),
        Front::Approximate(settings) => {
            let share = (settings.error_rate * 100.0).to_string();
            banner.extend(["; APPROXIMATE: up to ", &share, "% of new keys are lost"]);
        }
    }
    if settings.layers.fail == Fail::Open {
        banner.push_str("; FAILS OPEN: without its store, effects run unprotected");
    }
    banner
}

fn days(duration: Duration) -> String {
    let secs = duration.as_secs();
    match secs {
        0 => format!("{}ms", duration.as_millis()),
        secs if secs.is_multiple_of(86_400) => format!("{}d", secs / 86_400),
        secs if secs.is_multiple_of(3_600) => format!("{}h", secs / 3_600),
        secs if secs.is_multiple_of(60) => format!("{}m", secs / 60),
        secs => format!("{secs}s"),
    }
}

/// The keys of a store.
fn count(keys: Keys) -> String {
    match keys {
        Keys::None { is_new: true } => "new and empty".to_owned(),
        Keys::None { is_new: false } => "empty".to_owned(),
        Keys::Exactly(1) => "1 key".to_owned(),
        Keys::Exactly(keys) => format!("{} keys", in_threes(keys)),
        Keys::MoreThan(keys) => format!("more than {} keys", in_threes(keys)),
    }
}

/// A number with a comma before each three digits.
fn in_threes(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_holds_is_told_in_words() {
        for (keys, words) in [
            (Keys::None { is_new: true }, "new and empty"),
            (Keys::None { is_new: false }, "empty"),
            (Keys::Exactly(1), "1 key"),
            (Keys::Exactly(999), "999 keys"),
            (Keys::Exactly(5_003), "5,003 keys"),
            (Keys::MoreThan(1_200_000), "more than 1,200,000 keys"),
        ] {
            assert_eq!(count(keys), words);
        }
    }
}
