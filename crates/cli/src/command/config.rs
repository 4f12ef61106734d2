//! `semel config check`.

use semel_core::Result;

use crate::args::Common;
use crate::config::load;
use crate::{Exit, output};

/// Finds every fault in the configuration.
pub(crate) fn check(common: &Common) -> Result<Exit> {
    match load(None, common) {
        Ok((file, settings)) => {
            let count = settings.pipelines.len();
            let noun = if count == 1 { "pipeline" } else { "pipelines" };
            let line = format!(
                "{}: ok, {count} {noun}, store {}",
                file.display(),
                settings.store
            );
            output::data(line).map_err(output::cannot_print)?;
            Ok(Exit::Done)
        }
        Err(faults) => {
            let lines: Vec<_> = faults.iter().map(ToString::to_string).collect();
            output::data(lines.join("\n")).map_err(output::cannot_print)?;
            Ok(Exit::No)
        }
    }
}
