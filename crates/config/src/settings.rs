//! The settings of a configuration: typed, complete, checked against each other.

use std::ffi::OsString;
use std::time::Duration;

use semel_core::units::duration_text;
use semel_core::{Code, Window};

use super::Fault;
use super::admin::{self, AdminSettings};
use super::diagnostics::Diagnostics;
use super::fields::Fields;
use super::node::{Node, Origin};
use super::pipeline::{self, PipelineSettings, Shared};
use super::show::Effective;
use super::sink::TargetOf;
use super::store::{self, Accepted, Servers, StoreUrl};
use super::suggestion::suggestion;
use super::telemetry::{self, TelemetrySettings};
use super::tree;

/// Everything that a run needs to know.
#[derive(Clone)]
pub struct Settings {
    /// The store.
    pub store: StoreUrl,
    /// The weaknesses of the store that are accepted.
    pub accepted: Accepted,
    /// The pipelines in the order of their names: one at least.
    pub pipelines: Vec<PipelineSettings>,
    /// The time that running effects have once a stop is asked for.
    pub shutdown: Duration,
    /// The address at which a worker reports its status.
    pub admin: AdminSettings,
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
    /// The only pipeline (`--pipeline`).
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
        let pipelines = pipelines(&mut fields, shared, overrides);
        let admin = admin::read(&mut fields);
        let telemetry = telemetry::read(&mut fields, otel);
        fields.not_yet("gateway");
        for stray in strays {
            look_at_stray(stray, &fields);
        }
        fields.finish();
        let (store, accepted) = store?;
        Some(Self {
            store,
            accepted,
            pipelines,
            shutdown,
            admin,
            telemetry,
            effective: Effective::default(),
        })
    }
}

/// Reports a variable that begins with a setting of ours but is not written like one, and would be overlooked.
fn look_at_stray(variable: &str, fields: &Fields<'_>) {
    let path = variable.trim_start_matches("SEMEL_").to_ascii_lowercase();
    let first = path.split('_').next().unwrap_or_default();
    if fields.knows(first) {
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
) -> Vec<PipelineSettings> {
    let Some(table) = fields.required_sub("pipelines") else {
        return Vec::new();
    };
    if table.entries().next().is_none() {
        fields.missing("pipelines");
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
            let message = format!(
                "there is no pipeline `{wanted}`; {}",
                suggestion(wanted, &names)
            );
            let origin = Origin::Named("--pipeline".into());
            fields
                .found
                .fault(&origin, "pipelines", Code::InvalidConfig, message);
        }
        read.retain(|settings| *settings.pipeline.name == **wanted);
    }
    read
}
