//! `semel config`: reports faults in the configuration, and shows the settings that apply.

use semel_config::{Fault, REFERENCE, Settings};
use semel_core::Result;
use serde::Serialize;

use crate::args::{Config, ConfigCheck, ConfigShow, Language, Named, Output};
use crate::configuration::load;
use crate::{Exit, output};

/// Checks or shows the configuration.
pub(crate) fn config(command: &Config) -> Result<Exit> {
    match command {
        Config::Check(check) => self::check(check),
        Config::Show(show) => self::show(show),
        Config::Reference => {
            output::data(REFERENCE.trim_end()).map_err(output::cannot_print)?;
            Ok(Exit::Done)
        }
    }
}

/// Reads the settings that are named; `None` once their faults are printed.
pub(crate) fn settings(named: &Named) -> Option<Settings> {
    match load(named.file(), &named.common.overrides()) {
        Ok((_, settings)) => Some(settings),
        Err(faults) => {
            output::errors(faults);
            None
        }
    }
}

fn check(ConfigCheck { named, format }: &ConfigCheck) -> Result<Exit> {
    let loaded = load(named.file(), &named.common.overrides());
    let text = match format.output {
        Output::Table => told(&loaded),
        Output::Json | Output::Jsonl => {
            let faults = loaded.as_ref().map_or_else(|faults| &**faults, |_| &[]);
            let checked = ConfigReport {
                valid: loaded.is_ok(),
                faults: faults.iter().map(FaultLine::from).collect(),
            };
            serde_json::to_string(&checked).unwrap_or_default()
        }
    };
    output::data(text).map_err(output::cannot_print)?;
    Ok(match loaded {
        Ok(_) => Exit::Done,
        Err(_) => Exit::No,
    })
}

fn show(
    ConfigShow {
        named,
        origin,
        output,
        ..
    }: &ConfigShow,
) -> Result<Exit> {
    let Some(Settings { effective, .. }) = settings(named) else {
        return Ok(Exit::Usage);
    };
    let text = match output {
        Language::Toml => effective.toml(*origin),
        Language::Json => effective.json(*origin),
    };
    output::data(text.trim_end()).map_err(output::cannot_print)?;
    Ok(Exit::Done)
}

type Loaded = std::result::Result<(std::path::PathBuf, Settings), Vec<Fault>>;

fn told(loaded: &Loaded) -> String {
    match loaded {
        Ok((file, settings)) => {
            let count = settings.pipelines.len();
            let noun = if count == 1 { "pipeline" } else { "pipelines" };
            let (file, store) = (file.display(), &settings.store);
            let mut said = format!("{file}: ok, {count} {noun}, store {store}");
            for listener in settings.claims_listeners() {
                said.extend([", claims at ", &listener.address.to_string()]);
            }
            if let Some(gateway) = &settings.gateway {
                said.extend([", gateway at ", &gateway.listen.to_string()]);
            }
            for name in settings.accepted.names() {
                said.extend([", accepted: ", name]);
            }
            for pipeline in &settings.pipelines {
                for name in pipeline.waived.names() {
                    let pipeline = &*pipeline.pipeline.name;
                    said.extend([", accepted by ", pipeline, ": ", name]);
                }
            }
            said
        }
        Err(faults) => {
            let lines: Vec<_> = faults.iter().map(ToString::to_string).collect();
            lines.join("\n")
        }
    }
}

/// The documented object of `config check`.
#[derive(Serialize)]
struct ConfigReport<'a> {
    valid: bool,
    faults: Vec<FaultLine<'a>>,
}

#[derive(Serialize)]
struct FaultLine<'a> {
    code: &'static str,
    setting: &'a str,
    origin: &'a str,
    message: &'a str,
}

impl<'a> From<&'a Fault> for FaultLine<'a> {
    fn from(fault: &'a Fault) -> Self {
        Self {
            code: fault.code.as_str(),
            setting: &fault.path,
            origin: &fault.origin,
            message: &fault.message,
        }
    }
}
