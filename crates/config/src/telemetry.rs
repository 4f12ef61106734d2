//! `[telemetry]`: where the traces of a worker go, and which; with the variables that OpenTelemetry has for every program.

use std::ffi::OsString;
use std::fmt;

use semel_engine::trace::SampleShare;
use semel_worker::effect::http::{self, Settings as HttpSettings};

use super::fields::Fields;

/// The traces of a worker.
#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    /// The collector; without one, no spans are made.
    pub collector: Option<HttpSettings>,
    /// The share of traces to record of those that begin here.
    pub sample: SampleShare,
    /// True if spans have the keys of messages as they are.
    pub has_plain_keys: bool,
    /// The attributes of the resource, each once, `service.name` among them.
    pub resource: Vec<(String, String)>,
    /// The variables of OpenTelemetry that are not used, one line with the reason each; to be reported as warnings.
    pub notes: Vec<String>,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            collector: None,
            sample: SAMPLE,
            has_plain_keys: false,
            resource: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// The variables of OpenTelemetry that count. Values are secrets, and never shown.
#[derive(Clone, Default)]
pub(super) struct Variables(Vec<(&'static str, String)>);

impl Variables {
    /// Takes them out of the environment. Empty ones count as not set, as OpenTelemetry has it.
    pub(super) fn of(variables: &[(OsString, OsString)]) -> Self {
        let known = KNOWN.iter().filter_map(|known| {
            let (_, value) = variables.iter().find(|(name, _)| name == known)?;
            let value = value.to_string_lossy().trim().to_owned();
            (!value.is_empty()).then_some((*known, value))
        });
        let mut known = Self(known.collect());
        // Whoever switches all of it off has no use for the others, and for their faults.
        if known.are_off() {
            known.0.retain(|(name, _)| SWITCHES.contains(name));
        }
        known
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn are_off(&self) -> bool {
        let is_off = |name, word: &str| {
            self.get(name)
                .is_some_and(|it| it.eq_ignore_ascii_case(word))
        };
        is_off(DISABLED, "true") || is_off(EXPORTER, "none")
    }

    /// Returns the pairs of a list; none, with a note, if it is no list.
    fn pairs(&self, name: &str, notes: &mut Vec<String>) -> Vec<(String, String)> {
        match self.get(name).map(pairs) {
            Some(Ok(pairs)) => pairs,
            Some(Err(())) => {
                notes.push(format!(
                    "{name}: not a list of NAME=VALUE with commas between them; it is ignored"
                ));
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Tells whether the variables ask for a protocol that Semel speaks; else there are no traces by them.
    fn can_speak(&self, notes: &mut Vec<String>) -> bool {
        let each = [TRACES_PROTOCOL, PROTOCOL];
        let asked = each.into_iter().find_map(|it| Some((it, self.get(it)?)));
        let Some((name, _)) = asked.filter(|(_, protocol)| *protocol != SPOKEN) else {
            return true;
        };
        notes.push(format!(
            "{name}: only `{SPOKEN}` is spoken here; there are no traces"
        ));
        false
    }

    /// Returns the url to send to, and the variable that says it.
    fn url(&self) -> Option<(&'static str, String)> {
        if let Some(url) = self.get(TRACES_ENDPOINT) {
            return Some((TRACES_ENDPOINT, url.to_owned()));
        }
        self.get(ENDPOINT).map(|base| (ENDPOINT, url_of(base)))
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_set().entries(names).finish()
    }
}

/// Reads `[telemetry]`. The variables count where it says nothing, except that they can switch traces off.
pub(super) fn read(fields: &mut Fields<'_>, variables: &Variables) -> TelemetrySettings {
    let Some(mut table) = fields.optional_sub("telemetry") else {
        return TelemetrySettings::default();
    };
    let written = table.text("otlp").map(str::to_owned);
    let sample = sample(&mut table);
    let has_plain_keys = table.choice_or("keys", ("hashed", false), &[("plain", true)]);
    let (setting, url) = match (written, variables.url()) {
        (Some(base), _) => ("otlp", Some(url_of(&base))),
        (None, Some((name, url))) => {
            table.default_from("otlp", http::masked(&url), name);
            (name, Some(url))
        }
        (None, None) => ("otlp", None),
    };
    let mut notes = Vec::new();
    let is_ours = setting == "otlp";
    let url = url.filter(|_| !variables.are_off() && (is_ours || variables.can_speak(&mut notes)));
    let collector = url.and_then(|url| {
        let collector = HttpSettings {
            headers: vec![(
                "Content-Type".to_owned(),
                "application/x-protobuf".to_owned(),
            )],
            timeout: TIMEOUT,
            ..HttpSettings::new(url)
        };
        let Err(error) = collector.validate() else {
            return Some(collector);
        };
        let text = error.to_string();
        let (_, message) = text.split_once(": ").unwrap_or(("url", &text));
        match table.node("otlp") {
            Some(node) => table.fault("otlp", node, message),
            None => notes.push(format!("{setting}: {message}; there are no traces")),
        }
        None
    });
    let collector = collector.map(|collector| with_headers(collector, variables, &mut notes));
    let resource = match collector {
        Some(_) => resource(variables, &mut notes),
        None => vec![service(DEFAULT_SERVICE)],
    };
    table.finish();
    TelemetrySettings {
        collector,
        sample,
        has_plain_keys,
        resource,
        notes,
    }
}

fn sample(table: &mut Fields<'_>) -> SampleShare {
    table.default("sample", "1%");
    let read = table.parsed_with("sample", |text| {
        per_million(text).ok_or_else(|| SHARE.to_owned())
    });
    read.map_or(SAMPLE, SampleShare::per_million)
}

/// Reads a share such as `1%` or `0.05%`, in millionths.
fn per_million(text: &str) -> Option<u32> {
    let number = text.strip_suffix('%')?.trim_end();
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 4 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let part: u32 = format!("{part:0<4}").parse().ok()?;
    let count = whole.checked_mul(10_000)?.checked_add(part)?;
    (count <= 1_000_000).then_some(count)
}

/// Adds the headers that the variables name. One that no request can carry is left out, and so is a list that is none.
fn with_headers(
    collector: HttpSettings,
    variables: &Variables,
    notes: &mut Vec<String>,
) -> HttpSettings {
    let mut sound = collector;
    for variable in [HEADERS, TRACES_HEADERS] {
        for (name, value) in variables.pairs(variable, notes) {
            let mut with = sound.clone();
            with.headers
                .retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
            with.headers.push((name, value));
            if with.validate().is_ok() {
                sound = with;
            } else {
                notes.push(format!(
                    "{variable}: a header is none that can be sent; it is left out"
                ));
            }
        }
    }
    sound
}

fn resource(variables: &Variables, notes: &mut Vec<String>) -> Vec<(String, String)> {
    let mut resource = vec![service(DEFAULT_SERVICE)];
    let mut put = |name: String, value: String| {
        resource.retain(|(known, _)| *known != name);
        resource.push((name, value));
    };
    for (name, value) in variables.pairs(ATTRIBUTES, notes) {
        put(name, value);
    }
    if let Some(name) = variables.get(SERVICE) {
        put("service.name".to_owned(), name.to_owned());
    }
    resource
}

fn service(name: &str) -> (String, String) {
    ("service.name".to_owned(), name.to_owned())
}

/// Returns the url for traces below the one of a collector.
fn url_of(base: &str) -> String {
    let (place, query) = match base.split_once('?') {
        Some((place, query)) => (place, format!("?{query}")),
        None => (base, String::new()),
    };
    let place = place.trim_end_matches('/');
    if place.ends_with(PATH) {
        return format!("{place}{query}");
    }
    format!("{place}{PATH}{query}")
}

/// Reads a list of pairs as W3C Baggage has it, of which values may be percent-encoded.
fn pairs(text: &str) -> Result<Vec<(String, String)>, ()> {
    let pairs = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').ok_or(())?;
            let name = name.trim();
            if name.is_empty() {
                return Err(());
            }
            let value = http::percent_decoded(value.trim());
            Ok((
                name.to_owned(),
                String::from_utf8_lossy(&value).into_owned(),
            ))
        })
        .collect()
}

/// One in a hundred.
const SAMPLE: SampleShare = SampleShare::per_million(10_000);
const DEFAULT_SERVICE: &str = "semel";
const SHARE: &str =
    "must be a share from `0%` to `100%`, with at most four decimals, as in `1%` or `0.05%`";
const PATH: &str = "/v1/traces";
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const TRACES_HEADERS: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const TRACES_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
const SPOKEN: &str = "http/protobuf";
const SERVICE: &str = "OTEL_SERVICE_NAME";
const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const SWITCHES: [&str; 2] = [DISABLED, EXPORTER];
const KNOWN: [&str; 10] = [
    PROTOCOL,
    TRACES_PROTOCOL,
    ENDPOINT,
    TRACES_ENDPOINT,
    HEADERS,
    TRACES_HEADERS,
    SERVICE,
    ATTRIBUTES,
    DISABLED,
    EXPORTER,
];

#[cfg(test)]
mod tests;
