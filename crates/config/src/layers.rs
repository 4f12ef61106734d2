//! The layers between a pipeline and its store, and the fate of its messages while the store is
//! away: `fail`, `cache`, `approximate`.

use std::time::Duration;

use semel_engine::effect::Class;
use semel_engine::layer::{approximate, tiered};
use semel_engine::pipeline::Fail;

use super::fields::Fields;

/// The layers between a pipeline and its store.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// The fate of messages while the store is away.
    pub fail: Fail,
    /// The layer that is asked before the store, or in its place.
    pub front: Front,
}

/// The layer that is asked before the store, or in its place.
#[derive(Clone, Debug, Default)]
pub enum Front {
    /// No layer.
    #[default]
    None,
    /// A cache of completed records that were read.
    Cache(Cache),
    /// A filter that remembers finished operations.
    Approximate(approximate::Settings),
}

/// A cache of completed records.
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    /// Its size, and the time for which it trusts a record.
    pub settings: tiered::Settings,
    /// The number of completed records to read before anything else; 0 for none.
    pub warm: u64,
}

/// The part of a pipeline that its layers depend on.
pub(super) struct Known<'p> {
    pub(super) name: &'p str,
    pub(super) class: Option<Class>,
    pub(super) has_gate: bool,
    pub(super) window: Duration,
}

/// Reads the layers of a pipeline.
pub(super) fn read(fields: &mut Fields<'_>, pipeline: &Known<'_>) -> Layers {
    let fail = fail(fields, pipeline);
    let cache = cache(fields, pipeline);
    let approximate = approximate(fields, pipeline);
    if let (Some(_), Some(_), Some(node)) = (&cache, &approximate, fields.node("cache")) {
        let message =
            "an `approximate` pipeline answers from memory already; remove one of the two";
        fields.fault("cache", node, message);
    }
    let front = match (cache, approximate) {
        (_, Some(settings)) => Front::Approximate(settings),
        (Some(cache), None) => Front::Cache(cache),
        (None, None) => Front::None,
    };
    Layers { fail, front }
}

fn fail(fields: &mut Fields<'_>, pipeline: &Known<'_>) -> Fail {
    let fail = fields.choice_or("fail", ("closed", Fail::Closed), &[("open", Fail::Open)]);
    let refused = pipeline
        .class
        .map_or(Ok(()), |class| fail.check(class, pipeline.has_gate));
    if let (Err(error), Some(node)) = (refused, fields.node("fail")) {
        fields.unsupported("fail", node, error.to_string());
    }
    fail
}

fn cache(fields: &mut Fields<'_>, pipeline: &Known<'_>) -> Option<Cache> {
    if !fields.is_written("cache") {
        fields.ignore(&["cache"]);
        return None;
    }
    let mut table = fields.sub("cache")?;
    let usual = tiered::Settings::default();
    let bytes = table.size_bytes_or("size", usual.bytes as u64);
    let fresh = table.duration_or("fresh", usual.fresh);
    let longest = Duration::from_secs(3_600);
    if let Some(node) = table.node("fresh")
        && (fresh.is_zero() || fresh > longest)
    {
        let message =
            "must be from `1ms` to `1h`: so long an order in another process goes unnoticed";
        table.fault("fresh", node, message);
    }
    if let (0, Some(node)) = (bytes, table.node("size")) {
        table.fault("size", node, "a cache of no size keeps nothing");
    }
    let warm = if table.is_written("warm") {
        table.count_or("warm", u32::MAX, 1)
    } else {
        table.ignore(&["warm"]);
        0
    };
    table.finish();
    if let (Some(Class::Transactional), Some(node)) = (pipeline.class, fields.node("cache")) {
        let message = "claims of a transactional effect are decided in the store's transaction, where no \
                       cache is asked; remove it";
        fields.unsupported("cache", node, message);
    }
    if let (Some(Class::Streamed), Some(node)) = (pipeline.class, fields.node("cache")) {
        let message = "records of a streamed effect are the broker's, and in memory; remove it";
        fields.unsupported("cache", node, message);
    }
    let settings = tiered::Settings {
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        fresh,
        ..usual
    };
    Some(Cache {
        settings,
        warm: warm.into(),
    })
}

fn approximate(fields: &mut Fields<'_>, pipeline: &Known<'_>) -> Option<approximate::Settings> {
    if !fields.is_written("approximate") {
        fields.ignore(&["approximate"]);
        return None;
    }
    let mut table = fields.sub("approximate")?;
    if !table.is_written("keys") {
        table.missing("keys");
    }
    let keys = table
        .is_written("keys")
        .then(|| table.count_or("keys", u32::MAX, 1));
    let error_rate = table.parsed_with("error_rate", percentage);
    table.default("error_rate", "0.1%");
    let is_accepted = table.boolean_or("accept_loss", false);
    table.finish();
    let usual = approximate::Settings::new(pipeline.window, keys?.into());
    let settings = approximate::Settings {
        error_rate: error_rate.unwrap_or(usual.error_rate),
        accepted_by: is_accepted.then(|| pipeline.name.into()),
        ..usual
    };
    let class = pipeline.class?;
    let why = match (
        class,
        settings.check(pipeline.name, class, pipeline.has_gate),
    ) {
        (Class::Transactional, _) => {
            "an approximate store has neither transactions nor marks; remove it".to_owned()
        }
        (Class::Streamed, _) => {
            "records of a streamed effect are the broker's; remove it".to_owned()
        }
        (Class::Keyed { .. } | Class::Unkeyed(_), Ok(())) => return Some(settings),
        (Class::Keyed { .. } | Class::Unkeyed(_), Err(error)) => error.to_string(),
    };
    if let Some(node) = fields.node("approximate") {
        fields.unsupported("approximate", node, why);
    }
    Some(settings)
}

/// Reads a share as people write it: `0.1%`.
fn percentage(text: &str) -> Result<f64, String> {
    let number = text
        .strip_suffix('%')
        .and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(number) if number > 0.0 && number <= 10.0 => Ok(number / 100.0),
        Some(_) => Err(format!("`{text}` is not above `0%` and at most `10%`")),
        None => Err(format!("`{text}` is no share; write it like `0.1%`")),
    }
}
