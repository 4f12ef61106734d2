//! What the configuration means: typed, complete, checked across settings.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semel_broker_file::Format;
use semel_core::{Code, Window};
use semel_engine::pipeline::Pipeline;
use semel_worker::settings::EffectSettings;

use super::fields::{Faults, Fields, suggestion};
use super::tree::{self, Node, Origin, Table, Value};
use super::{Fault, pipeline};

/// Everything that a run needs to know.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) store: StoreUrl,
    pub(crate) pipelines: Vec<PipelineSettings>,
    pub(crate) shutdown: Duration,
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
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let path = rest.strip_prefix("//").unwrap_or(rest);
        match kind {
            "memory" if path.is_empty() => Ok(Self::Memory),
            "embedded" | "sqlite" if path.is_empty() => Err(format!(
                "`{kind}:` needs a path, as in `{kind}:./semel-data`"
            )),
            "embedded" => Ok(Self::Embedded(path.into())),
            "sqlite" => Ok(Self::Sqlite(path.into())),
            "postgres" | "postgresql" | "mysql" | "redis" | "rediss" | "dynamodb" | "cassandra" => {
                Err(format!("`{kind}` stores are not supported by this release"))
            }
            _ => {
                let hint = suggestion(kind, &["memory", "embedded", "sqlite"]);
                Err(format!(
                    "a store url begins with its kind, as in `embedded:./data`; {hint}"
                ))
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
        let mut root = tree::read(&name, &text).map_err(|fault| vec![fault])?;
        let faults = Faults::default();
        tree::overlay(&mut root, variables, &faults);
        let settings = Self::read(&root, overrides, &faults);
        let faults = faults.into_vec();
        match settings {
            Some(settings) if faults.is_empty() => Ok(settings),
            Some(_) | None => Err(faults),
        }
    }

    fn read(root: &Node, overrides: &Overrides, faults: &Faults) -> Option<Self> {
        let mut fields = Fields::of(root, "", faults)?;
        let store = store(&mut fields, overrides);
        let window = window(&mut fields);
        let shutdown = fields
            .duration("shutdown")
            .unwrap_or(Duration::from_secs(30));
        let pipelines = pipelines(&mut fields, window, store.as_ref(), overrides);
        for not_yet in ["admin", "gateway"] {
            fields.not_yet(not_yet);
        }
        fields.finish();
        Some(Self {
            store: store?,
            pipelines,
            shutdown,
        })
    }
}

fn store(fields: &mut Fields<'_>, overrides: &Overrides) -> Option<StoreUrl> {
    let empty = Node {
        value: Value::Table(Table::new()),
        origin: Origin::Default,
    };
    let node = fields.node("store");
    let mut table = Fields::of(node.unwrap_or(&empty), "store", fields.faults)?;
    let url_file = table.parsed_with("url_file", |path| {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read `{path}`: {error}"))?;
        text.trim().parse::<StoreUrl>()
    });
    let url: Option<StoreUrl> = table.parsed("url");
    if let (Some(node), Some(_)) = (table.node("url"), table.node("url_file")) {
        table.fault("url", node, "either `url` or `url_file`, not both");
    }
    let is_volatile_allowed = table.boolean("allow_volatile").unwrap_or(false);
    let written = table.node("url").or_else(|| table.node("url_file"));
    table.finish();
    let (store, origin) = match (&overrides.store, written) {
        (Some(text), _) => {
            let origin = Origin::Environment("--store".to_owned());
            match text.parse() {
                Ok(url) => (url, origin),
                Err(message) => {
                    let (path, code) = ("store.url", Code::InvalidConfig);
                    fields.faults.push(&origin, path, code, message);
                    return None;
                }
            }
        }
        (None, Some(node)) => (url.or(url_file)?, node.origin.clone()),
        (None, None) => (StoreUrl::Embedded("./semel-data".into()), Origin::Default),
    };
    if store == StoreUrl::Memory && !is_volatile_allowed {
        let message = "`memory:` forgets everything at exit, so that no promise holds across runs; \
                       set `store.allow_volatile = true` to use it all the same";
        fields
            .faults
            .push(&origin, "store.url", Code::InvalidConfig, message);
    }
    Some(store)
}

fn window(fields: &mut Fields<'_>) -> Window {
    let Some(mut table) = fields.sub("window") else {
        return Window::DEFAULT;
    };
    let duration = table.duration("duration");
    let margin = table.duration("margin");
    if let (Some(duration), Some(node)) = (duration, table.node("duration"))
        && duration.is_zero()
    {
        table.fault(
            "duration",
            node,
            "a window of zero remembers nothing; the least is `1ms`",
        );
    }
    let window = duration.map_or(Window::DEFAULT, Window::new);
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
    let Some(table) = fields.sub("pipelines") else {
        if fields.node("pipelines").is_none() {
            fields.missing("pipelines");
        }
        return Vec::new();
    };
    let mut read = Vec::new();
    for (name, node) in table.entries() {
        if let Some(settings) = pipeline::read(name, node, window, store, fields.faults) {
            read.push(settings);
        }
    }
    if table.entries().next().is_none() {
        fields.missing("pipelines");
    }
    pipeline::check_together(&table, &read);
    if let Some(wanted) = &overrides.pipeline {
        let names: Vec<_> = table.entries().map(|(name, _)| name.as_str()).collect();
        if !names.contains(&wanted.as_str()) {
            let message = format!(
                "there is no pipeline `{wanted}`; {}",
                suggestion(wanted, &names)
            );
            let origin = Origin::Environment("--pipeline".to_owned());
            fields
                .faults
                .push(&origin, "pipelines", Code::InvalidConfig, message);
        }
        read.retain(|settings| *settings.pipeline.name == **wanted);
    }
    read
}
