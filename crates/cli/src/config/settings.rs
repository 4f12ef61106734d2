//! What the configuration means: typed, complete, checked across settings.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semel_broker_file::Format;
use semel_core::{Code, Window};
use semel_engine::pipeline::Pipeline;
use semel_worker::settings::EffectSettings;

use super::fields::Fields;
use super::found::Found;
use super::refusal::Refusal;
use super::show::Effective;
use super::suggest::suggestion;
use super::tree::{self, Node, Origin};
use super::{Fault, pipeline};
use crate::output::value::duration_text;

/// Everything that a run needs to know.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) store: StoreUrl,
    pub(crate) pipelines: Vec<PipelineSettings>,
    pub(crate) shutdown: Duration,
    /// All of it as it may be shown.
    pub(crate) effective: Effective,
}

/// One pipeline.
#[derive(Clone)]
pub(crate) struct PipelineSettings {
    /// How messages become operations.
    pub(crate) pipeline: Pipeline,
    /// Where messages come from.
    pub(crate) source: SourceSettings,
    /// What happens once per key.
    pub(crate) effect: EffectSettings,
}

/// Where messages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceSettings {
    /// A file, read from its start.
    File { path: PathBuf, format: Format },
    /// Standard input.
    Stdin { format: Format },
}

/// What the command line says over the file and the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) store: Option<String>,
    pub(crate) pipeline: Option<String>,
}

/// Where operations are remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    Memory,
    Embedded(PathBuf),
    Sqlite(PathBuf),
}

impl StoreUrl {
    /// Its folder or file.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Memory => None,
            Self::Embedded(path) | Self::Sqlite(path) => Some(path),
        }
    }

    /// Whether effects can join its transactions.
    pub(crate) const fn is_transactional(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }
}

impl std::str::FromStr for StoreUrl {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let path = rest.strip_prefix("//").unwrap_or(rest);
        match kind {
            "memory" if path.is_empty() => Ok(Self::Memory),
            "embedded" | "sqlite" if path.is_empty() => {
                Err(format!("`{kind}:` needs a path, as in `{kind}:./semel-data`").into())
            }
            "embedded" => Ok(Self::Embedded(path.into())),
            "sqlite" => Ok(Self::Sqlite(path.into())),
            "postgres" | "postgresql" | "mysql" | "redis" | "rediss" | "dynamodb" | "cassandra" => {
                let message = format!("`{kind}` stores are not supported by this release");
                Err(Refusal::unsupported(message))
            }
            _ => {
                let hint = suggestion(kind, &["memory", "embedded", "sqlite"]);
                Err(
                    format!("a store url begins with its kind, as in `embedded:./data`; {hint}")
                        .into(),
                )
            }
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Embedded(path) => write!(f, "embedded:{}", path.display()),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

impl Settings {
    /// Reads a configuration: defaults under the file under the environment under flags.
    pub(crate) fn load(
        file: &Path,
        variables: impl Iterator<Item = (OsString, OsString)>,
        overrides: &Overrides,
    ) -> Result<Self, Vec<Fault>> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::NotFound {
                "; name another with --config"
            } else {
                ""
            };
            vec![Fault {
                origin: name.clone(),
                path: String::new(),
                message: format!("cannot read the configuration: {error}{hint}"),
                code: Code::ConfigUnreadable,
            }]
        })?;
        Self::of(&name, &text, variables, overrides)
    }

    /// The same from the text of a file called `name`.
    pub(super) fn of(
        name: &str,
        text: &str,
        variables: impl Iterator<Item = (OsString, OsString)>,
        overrides: &Overrides,
    ) -> Result<Self, Vec<Fault>> {
        let (settings, effective, faults) = Self::parts(name, text, variables, overrides)?;
        match settings {
            Some(settings) if faults.is_empty() => Ok(Self {
                effective,
                ..settings
            }),
            Some(_) | None => Err(faults),
        }
    }

    /// The same, with all that could be read of a faulty one.
    pub(super) fn parts(
        name: &str,
        text: &str,
        variables: impl Iterator<Item = (OsString, OsString)>,
        overrides: &Overrides,
    ) -> Result<(Option<Self>, Effective, Vec<Fault>), Vec<Fault>> {
        let mut root = tree::read(name, text).map_err(|fault| vec![fault])?;
        let found = Found::default();
        let strays = tree::overlay(&mut root, variables, &found);
        if let Some(url) = &overrides.store {
            tree::put_store(&mut root, url);
        }
        let settings = Self::read(&root, &strays, overrides, &found);
        let (mut effective, faults) = found.into_parts();
        if let Some(pipeline) = &overrides.pipeline {
            effective.keep_pipeline(pipeline);
        }
        Ok((settings, effective, faults))
    }

    fn read(root: &Node, strays: &[String], overrides: &Overrides, found: &Found) -> Option<Self> {
        let mut fields = Fields::of(root, Vec::new(), found)?;
        let store = store(&mut fields);
        let window = window(&mut fields);
        let shutdown = fields.duration_or("shutdown", Duration::from_secs(30));
        let pipelines = pipelines(&mut fields, window, store.as_ref(), overrides);
        for not_yet in ["admin", "gateway"] {
            fields.not_yet(not_yet);
        }
        for stray in strays {
            look_at_stray(stray, &fields);
        }
        fields.finish();
        Some(Self {
            store: store?,
            pipelines,
            shutdown,
            effective: Effective::default(),
        })
    }
}

/// A variable that begins with a setting of ours, but is not written as one, would be overlooked.
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

fn store(fields: &mut Fields<'_>) -> Option<StoreUrl> {
    let mut table = fields.optional_sub("store")?;
    let url = table.parsed_with("url", str::parse::<StoreUrl>);
    let url_file = table.secret_file("url_file", "url", str::parse::<StoreUrl>);
    let written = match (table.node("url"), table.node("url_file")) {
        (Some(node), Some(_)) => {
            table.fault("url", node, "either `url` or `url_file`, not both");
            Some(node)
        }
        (one, other) => one.or(other),
    };
    let is_volatile_allowed = table.boolean_or("allow_volatile", false);
    let default = StoreUrl::Embedded("./semel-data".into());
    if written.is_none() {
        table.default("url", default.to_string());
    }
    let (store, origin) = written.map_or((Some(default), Origin::Default), |node| {
        (url.or(url_file), node.origin.clone())
    });
    table.finish();
    if store == Some(StoreUrl::Memory) && !is_volatile_allowed {
        let message = "`memory:` forgets everything at exit, so that no promise holds across runs; \
                       set `store.allow_volatile = true` to use it all the same";
        fields
            .found
            .fault(&origin, "store.url", Code::InvalidConfig, message);
    }
    store
}

fn window(fields: &mut Fields<'_>) -> Window {
    let Some(mut table) = fields.optional_sub("window") else {
        return Window::DEFAULT;
    };
    let duration = table.duration_or("duration", Window::DEFAULT.duration());
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
    window: Window,
    store: Option<&StoreUrl>,
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
        if let Some(settings) = pipeline::read(name, node, window, store, fields.found) {
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
