//! The settings of a configuration: typed, complete, checked against each other.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use semel_core::units::duration_text;
use semel_core::{Code, Window};

use super::Fault;
use super::admin::{self, AdminSettings};
use super::claims::{self, ClaimsListener, ClaimsSettings, TokensSettings};
use super::console::{self, ConsoleSettings};
use super::diagnostics::Diagnostics;
use super::fields::Fields;
use super::gateway::{self, GatewaySettings};
use super::ingest::IngestSettings;
use super::lenders::{self, Lenders};
use super::listener::{self, Door};
use super::node::{Node, Origin};
use super::pipeline::{self, PipelineSettings, Shared};
use super::refusal::Refusal;
use super::relay::{self, RelaySettings};
use super::show::Effective;
use super::sink::TargetOf;
use super::source::SourceSettings;
use super::store::{self, Accepted, ServerKind, Servers, StoreUrl};
use super::suggestion::suggestion;
use super::telemetry::{self, TelemetrySettings};
use super::tree;
use super::webhook;

/// Everything that a run needs to know.
#[derive(Clone)]
pub struct Settings {
    /// The store.
    pub store: StoreUrl,
    /// The weaknesses of the store that are accepted.
    pub accepted: Accepted,
    /// The pipelines in the order of their names: one at least, unless there is a relay, or claims or an API are served.
    pub pipelines: Vec<PipelineSettings>,
    /// The relays in the order of their names.
    pub relays: Vec<RelaySettings>,
    /// The time that running effects have once a stop is asked for.
    pub shutdown: Duration,
    /// The address at which a worker reports its status.
    pub admin: AdminSettings,
    /// The parts of messages that it shows.
    pub console: ConsoleSettings,
    /// The claim API.
    pub claims: ClaimsSettings,
    /// The reverse proxy before an API, if there is one.
    pub gateway: Option<GatewaySettings>,
    /// The tokens of the callers of the claim API.
    pub tokens: TokensSettings,
    /// The traces of a worker.
    pub telemetry: TelemetrySettings,
    /// All settings as they may be shown.
    pub effective: Effective,
}

/// The settings of a command line, which override the file and the environment.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The url of the store (`--store`).
    pub store: Option<String>,
    /// The only pipeline (`--pipeline`); nothing is relayed then, and neither claims nor an API are served.
    pub pipeline: Option<String>,
}

/// The stores and brokers that are built into the program that reads a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Backends {
    /// The servers whose stores the program can open.
    pub servers: Servers,
    /// Turns the settings of a target into something to publish to.
    pub target: TargetOf,
}

impl Settings {
    /// Returns the listeners that serve the claim API: its own, and that of the gateway where that serves it, too.
    pub fn claims_listeners(&self) -> Vec<ClaimsListener> {
        let own = self.claims.listen.map(|address| ClaimsListener {
            setting: "claims.listen",
            address,
            is_encrypted: self.claims.tls.is_some(),
        });
        let gateway = self.gateway.as_ref().filter(|it| it.claims);
        let gateway = gateway.map(|it| ClaimsListener {
            setting: "gateway.listen",
            address: it.listen,
            is_encrypted: it.tls.is_some(),
        });
        own.into_iter().chain(gateway).collect()
    }

    /// Tells whether the claim API is served.
    pub fn serves_claims(&self) -> bool {
        !self.claims_listeners().is_empty()
    }

    /// Returns the settings as `--pipeline` leaves them: with this pipeline alone, nothing relayed, and neither claims nor an
    /// API served. None if there is no such pipeline.
    pub fn of_pipeline(&self, name: &str) -> Option<Self> {
        let mut alone = self.clone();
        alone.pipelines.retain(|it| *it.pipeline.name == *name);
        alone.relays.clear();
        alone.claims.listen = None;
        alone.gateway = None;
        (!alone.pipelines.is_empty()).then_some(alone)
    }

    /// Reads the text of a configuration called `name`, with defaults under it, and the environment and then
    /// the flags over it.
    ///
    /// # Errors
    ///
    /// Every fault: line by line, then those of the environment and of flags
    pub fn of(
        name: &str,
        text: &str,
        variables: impl Iterator<Item = (OsString, OsString)>,
        overrides: &Overrides,
        backends: Backends,
    ) -> Result<Self, Vec<Fault>> {
        let (settings, effective, faults) =
            Self::parts(name, text, variables, overrides, backends)?;
        match settings {
            Some(settings) if faults.is_empty() => Ok(Self {
                effective,
                ..settings
            }),
            Some(_) | None => Err(faults),
        }
    }

    /// Reads the store that the environment alone names, and its weaknesses that are accepted; nothing if the
    /// environment names no store.
    ///
    /// # Errors
    ///
    /// Every fault of the variables about the store
    pub fn store_of(
        variables: impl Iterator<Item = (OsString, OsString)>,
        servers: Servers,
    ) -> Result<Option<(StoreUrl, Accepted)>, Vec<Fault>> {
        let mut root = tree::read("", "").map_err(|fault| vec![fault])?;
        let found = Diagnostics::default();
        tree::overlay(&mut root, variables, &found);
        let is_named = tree::names_store(&root);
        let store = Fields::of(&root, Vec::new(), &found)
            .filter(|_| is_named)
            .and_then(|mut fields| store::read(&mut fields, servers));
        match found.into_parts().1 {
            faults if is_named && !faults.is_empty() => Err(faults),
            _ => Ok(store),
        }
    }

    /// Tells whether nothing runs but relays, which need no store.
    pub const fn has_relays_alone(&self) -> bool {
        !self.relays.is_empty()
            && self.pipelines.is_empty()
            && self.claims.listen.is_none()
            && self.gateway.is_none()
    }

    /// Reads a configuration; returns everything that could be read, even of a faulty one.
    pub(super) fn parts(
        name: &str,
        text: &str,
        variables: impl Iterator<Item = (OsString, OsString)>,
        overrides: &Overrides,
        backends: Backends,
    ) -> Result<(Option<Self>, Effective, Vec<Fault>), Vec<Fault>> {
        let mut root = tree::read(name, text).map_err(|fault| vec![fault])?;
        let found = Diagnostics::default();
        let variables: Vec<_> = variables.collect();
        let otel = telemetry::Variables::of(&variables);
        let strays = tree::overlay(&mut root, variables.into_iter(), &found);
        if let Some(url) = &overrides.store {
            tree::put_store(&mut root, url);
        }
        let settings = Self::read(&root, (&strays, &otel), overrides, backends, &found);
        let (mut effective, faults) = found.into_parts();
        if let Some(pipeline) = &overrides.pipeline {
            effective.keep_pipeline(pipeline);
        }
        Ok((settings, effective, faults))
    }

    fn read(
        root: &Node,
        (strays, otel): (&[String], &telemetry::Variables),
        overrides: &Overrides,
        backends: Backends,
        found: &Diagnostics,
    ) -> Option<Self> {
        let mut fields = Fields::of(root, Vec::new(), found)?;
        let store = store::read(&mut fields, backends.servers);
        let window = window(&mut fields);
        let shutdown = fields.duration_or("shutdown", Duration::from_secs(30));
        let shared = Shared {
            window,
            store: store.as_ref().map(|(url, _)| url),
            target: backends.target,
        };
        let mut claims = claims::read(&mut fields, window);
        let tokens = claims::tokens(&mut fields);
        let mut gateway = gateway::read(&mut fields, window);
        let mut relays = relay::read(
            &mut fields,
            relay::Shared {
                store: store.as_ref().map(|(url, _)| url),
                servers: backends.servers,
                target: backends.target,
                patience: shutdown,
            },
        );
        let serves = ["claims", "gateway", "relays"];
        let serves = serves.into_iter().any(|it| fields.is_written(it));
        let mut pipelines = pipelines(&mut fields, shared, overrides, serves);
        if let (Some((url, _)), Some(gateway)) = (&store, &gateway)
            && gateway.reuse_port
            && !url.is_shared()
        {
            fields.fault_at(&["gateway", "reuse_port"], ONE_PROCESS);
        }
        for relay in &relays {
            if pipelines.iter().any(|it| it.pipeline.name == relay.name) {
                fields.fault_at(&["relays", &relay.name], SAME_NAME);
            }
        }
        let admin = admin::read(&mut fields);
        let console = console::read(&mut fields);
        let lenders = Lenders {
            gateway: gateway.as_ref(),
            admin: &admin,
        };
        lenders::enter(&fields, lenders, ingests(&mut pipelines));
        if overrides.pipeline.is_some() {
            gateway = None;
            relays.clear();
            if let Some(claims) = &mut claims {
                claims.listen = None;
            }
        }
        let listeners = [
            ("admin", admin.listen),
            ("claims", claims.as_ref().and_then(|it| it.listen)),
            ("gateway", gateway.as_ref().map(|it| it.listen)),
        ];
        keep_apart(&listeners, &fields);
        let others = listeners.map(|(name, address)| (format!("{name}.listen"), address));
        let others = others.each_ref().map(|(name, address)| (&**name, *address));
        webhook::check_together(&fields, &doors(&pipelines), &others);
        if let Some((url, _)) = &store {
            check_kept(&fields, url, &pipelines);
        }
        let telemetry = telemetry::read(&mut fields, otel);
        for stray in strays {
            look_at_stray(stray, &fields);
        }
        fields.finish();
        let (store, accepted) = store?;
        Some(Self {
            store,
            accepted,
            pipelines,
            relays,
            shutdown,
            admin,
            console,
            claims: claims?,
            gateway,
            tokens: tokens?,
            telemetry,
            effective: Effective::default(),
        })
    }
}

/// The fault of a relay that cannot be told from a pipeline.
const SAME_NAME: &str = "is the name of a pipeline, too; orders that pause one go by the name, so give the relay another one";
/// The fault of gateways that share an address, over a store that they cannot share.
const ONE_PROCESS: &str = "needs a store that several processes have open at once: `sqlite:` or one on a server; with \
                           `embedded:`, have systemd keep the socket open instead (socket activation), so that nobody is \
                           refused while one process ends and the next one begins";

/// Refuses pipelines whose messages the store could not keep.
fn check_kept(fields: &Fields<'_>, store: &StoreUrl, pipelines: &[PipelineSettings]) {
    let StoreUrl::Server(url) = store else {
        return;
    };
    if url.kind() != ServerKind::Redis {
        return;
    }
    for pipeline in pipelines {
        let setting = match pipeline.source {
            SourceSettings::Ingest(_) => "kind",
            _ if pipeline.sequence_gate.is_some() => "producer",
            _ => continue,
        };
        let message = "keeps its messages in the store, which Redis does not do in this release; use `embedded:DIR`, \
                       `sqlite:FILE`, `postgres://…` or `mysql://…`";
        let place = ["pipelines", &pipeline.pipeline.name, "source", setting];
        fields.refuse_at(&place, Refusal::unsupported(message));
    }
}

/// Returns the sources that producers send to, each with the name of its pipeline.
fn ingests(
    pipelines: &mut [PipelineSettings],
) -> impl Iterator<Item = (&str, &mut IngestSettings)> {
    pipelines.iter_mut().filter_map(|it| match &mut it.source {
        SourceSettings::Ingest(source) => Some((&*it.pipeline.name, source)),
        _ => None,
    })
}

/// Returns the places that sources listen at, each with the name of its pipeline.
fn doors(pipelines: &[PipelineSettings]) -> Vec<(&str, Door<'_>)> {
    let doors = pipelines.iter();
    let doors = doors.filter_map(|it| Some((&*it.pipeline.name, it.source.door()?)));
    doors.collect()
}

/// Reports a listener whose address meets that of one before it.
fn keep_apart(listeners: &[(&str, Option<SocketAddr>)], fields: &Fields<'_>) {
    for (at, (name, address)) in listeners.iter().enumerate() {
        for (before, taken) in &listeners[..at] {
            if let (Some(one), Some(other)) = (address, taken)
                && listener::meet(*one, *other)
            {
                let message = format!("meets the address of `{before}.listen`; set another port");
                fields.fault_at(&[name, "listen"], message);
            }
        }
    }
}

/// The variable that names the worker which verbs ask, in the place of a store.
const ADMIN: &str = "SEMEL_ADMIN";

/// Reports a variable that begins with a setting of ours but is not written like one, and would be overlooked.
fn look_at_stray(variable: &str, fields: &Fields<'_>) {
    let path = variable.trim_start_matches("SEMEL_").to_ascii_lowercase();
    let first = path.split('_').next().unwrap_or_default();
    if fields.knows(first) && variable != ADMIN {
        let message = "no setting; variables of settings are written SEMEL__ and the parts of the \
                       setting with __ between them, as in SEMEL__STORE__URL";
        let origin = Origin::Named(variable.into());
        fields
            .found
            .fault(&origin, "", Code::ConfigUnknownKey, message);
    }
}

fn window(fields: &mut Fields<'_>) -> Window {
    let Some(mut table) = fields.optional_sub("window") else {
        return Window::DEFAULT;
    };
    let duration = table.window_or("duration", Window::DEFAULT.duration());
    let margin = table.duration("margin");
    if let Some(node) = table.node("duration")
        && duration.is_zero()
    {
        table.fault(
            "duration",
            node,
            "a window of zero remembers nothing; the least is `1ms`",
        );
    }
    let window = Window::new(duration);
    let derived = window.margin();
    if derived.subsec_nanos().is_multiple_of(1_000_000) {
        table.default("margin", duration_text(derived));
    }
    let window = margin.map_or(window, |margin| window.with_margin(margin));
    if let Some(node) = table.node("margin")
        && window.margin() >= window.duration()
    {
        table.fault("margin", node, "must be shorter than the window");
    }
    table.finish();
    window
}

fn pipelines(
    fields: &mut Fields<'_>,
    shared: Shared<'_>,
    overrides: &Overrides,
    serves: bool,
) -> Vec<PipelineSettings> {
    let is_written = fields.is_written("pipelines");
    let Some(table) = fields.optional_sub("pipelines") else {
        return Vec::new();
    };
    if !serves && (!is_written || table.entries().next().is_none()) {
        let message = "is missing; write `[pipelines.NAME]`, or `[relays.NAME]` to publish an outbox, or `[claims]` or `[gateway]` to serve clients alone";
        fields.fault_at(&["pipelines"], message);
    }
    let mut read = Vec::new();
    for (name, node) in table.entries() {
        if let Some(settings) = pipeline::read(name, node, shared, fields.found) {
            read.push(settings);
        }
    }
    pipeline::check_together(&table, &read);
    if let Some(wanted) = &overrides.pipeline {
        let names: Vec<_> = table.entries().map(|(name, _)| name.as_str()).collect();
        if !names.contains(&wanted.as_str()) {
            let message = if names.is_empty() {
                format!("there is no pipeline `{wanted}`, and no other")
            } else {
                let suggestion = suggestion(wanted, &names);
                format!("there is no pipeline `{wanted}`; {suggestion}")
            };
            let origin = Origin::Named("--pipeline".into());
            fields
                .found
                .fault(&origin, "pipelines", Code::InvalidConfig, message);
        }
        read.retain(|settings| *settings.pipeline.name == **wanted);
    }
    read
}
