//! Deduplicates without remembering anything beyond the run. SIGINT and SIGTERM end it at once, as they end
//! `uniq`: there is nothing to keep.

use semel_config::Accepted;
use semel_core::key::KeySelector;
use semel_core::{Clock, Result};
use semel_engine::summary::Fate;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_render::run::summary;
use semel_worker::dedup::{Counts, Dedup, Ephemeral, Format, Input, Shown};

use super::ends::{SummaryFile, Target};
use super::format::without_keys;
use crate::args;
use crate::progress::Bars;
use crate::{Exit, output};

/// Prints the lines that the arguments ask for.
pub(super) fn ephemeral(
    arguments: &args::Dedup,
    format: &Format,
    key: KeySelector,
    input: Input,
    target: Target,
    summary_file: Option<SummaryFile>,
) -> Result<Exit> {
    let ephemeral = Ephemeral {
        key,
        format: format.clone(),
        shown: shown(arguments),
        max_line_bytes: Dedup::MAX_LINE_BYTES,
    };
    let bars = Bars::beside_data();
    let clock = SystemClock::new();
    let on_progress = bars.of(&arguments.pipeline);
    let counts = ephemeral.run(
        input,
        &mut target.into_stream()?,
        &SystemEntropy,
        &on_progress,
    );
    bars.clear();
    let Counts {
        summary: mut counted,
        first_unusable,
    } = counts?;
    counted.elapsed = clock.monotonic();
    let name = &*arguments.pipeline;
    if let Some((at, why)) = first_unusable {
        let count = counted.of(Fate::Quarantined);
        let noun = if count == 1 { "line" } else { "lines" };
        output::note(format_args!(
            "{name}: {count} {noun} without a usable key left out, the first {at}: {why}"
        ));
    }
    if let Some(file) = summary_file {
        file.write(&summary::json(name, &counted.into(), Accepted::default()))?;
    }
    Ok(match without_keys(arguments, format, &counted) {
        Some(message) => {
            output::error(message);
            Exit::No
        }
        None => Exit::Done,
    })
}

/// Translates the options, which are those of `uniq`, to the lines that are shown.
const fn shown(arguments: &args::Dedup) -> Shown {
    let (least, most) = match (arguments.repeated, arguments.unique) {
        (true, _) => (2, u64::MAX),
        (false, true) => (1, 1),
        (false, false) => (1, u64::MAX),
    };
    match (arguments.count, arguments.repeated, arguments.unique) {
        (false, true, _) => Shown::Repeated,
        (false, false, false) => Shown::First,
        (is_counted, ..) => Shown::AtEnd {
            least,
            most,
            is_counted,
        },
    }
}
