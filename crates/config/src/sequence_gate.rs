//! `producer`, `epoch` and `sequence` of `[pipelines.NAME.source]`: the sequence gate before the messages of a broker.

use std::time::Duration;

use semel_broker_webhook::GateOptions;
use semel_core::producer::headers;
use semel_core::select::Selector;

use super::fields::Fields;

/// Reads the settings of a gate before a source; nothing where none of them is written. `bound` says what bounds the messages
/// that the source hands over before one is settled, if anything does.
pub(super) fn read(source: &mut Fields<'_>, bound: Option<&str>) -> Option<GateOptions> {
    if !ALL.iter().any(|name| source.is_written(name)) {
        return None;
    }
    let [producer, epoch, sequence] = SELECTORS.map(|(name, header)| {
        let default = Selector::Header(header.into());
        source.default(name, default.to_string());
        source.selector(name).unwrap_or(default)
    });
    let is_required = source.boolean_or("require", false);
    let is_any_first = source.choice_or("first", ("one", false), &[("any", true)]);
    let stops_at_gap = source.choice_or("on_gap", ("quarantine", false), &[("stop", true)]);
    let (hold, most_held) = hold(source, bound);
    if !SELECTORS.iter().any(|(name, _)| source.is_written(name)) {
        let written = OTHERS.into_iter().find(|name| source.is_written(name));
        if let Some((name, node)) = written.and_then(|name| Some((name, source.node(name)?))) {
            let message = "says nothing without a sequence gate: set `producer`, `epoch` or `sequence` beside it";
            source.fault(name, node, message);
        }
    }
    Some(GateOptions {
        producer,
        epoch,
        sequence,
        is_required,
        is_any_first,
        is_shared: false,
        stops_at_gap,
        hold,
        most_held,
    })
}

/// Reads how long, and how many messages are held for those that are missing before them.
fn hold(source: &mut Fields<'_>, bound: Option<&str>) -> (Duration, Option<usize>) {
    let Some(mut hold) = source.optional_sub("hold") else {
        return (HOLD, bound.is_none().then_some(MOST_HELD as usize));
    };
    let most = match bound {
        Some(bound) => {
            if let Some(node) = hold.node("messages") {
                let message = format!("is for a file or stdin: here, {bound} bounds how many wait");
                hold.fault("messages", node, message);
            }
            None
        }
        None => Some(hold.count_or("messages", 1_000_000, MOST_HELD) as usize),
    };
    let time = hold.duration_or("time", HOLD);
    if let Some(node) = hold.node("time")
        && time > LONGEST_HOLD
    {
        hold.fault("time", node, "must be at most `1h`");
    }
    hold.finish();
    (time, most)
}

/// The settings that switch a gate on, and the headers that they select unless they say otherwise.
const SELECTORS: [(&str, &str); 3] = [
    ("producer", headers::PRODUCER),
    ("epoch", headers::EPOCH),
    ("sequence", headers::SEQUENCE),
];
const OTHERS: [&str; 4] = ["require", "first", "on_gap", "hold"];
const ALL: [&str; 7] = [
    "producer", "epoch", "sequence", "require", "first", "on_gap", "hold",
];
/// Longer than a broker needs to hand over again what a worker had that was killed.
const HOLD: Duration = Duration::from_secs(300);
const LONGEST_HOLD: Duration = Duration::from_secs(3_600);
const MOST_HELD: u32 = 100_000;

#[cfg(test)]
mod tests;
