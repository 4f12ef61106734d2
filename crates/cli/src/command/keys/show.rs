//! `semel keys show`.

use semel_core::{Outcome, Record, Result};
use semel_operate::keys::Detail;

use super::unknown::tell_missing;
use crate::Exit;
use crate::args::keys::Show;
use crate::command::operate::{self, Found, usage};
use crate::output::{self, Answers, Stream, state_text};

/// Prints whole records.
pub(crate) fn show(arguments: &Show) -> Result<Exit> {
    if arguments.outcome && arguments.keys.len() != 1 {
        return Err(usage("--outcome prints the outcome of one key; name one"));
    }
    operate::look(&arguments.common, async |ground| {
        let mut answers = Answers::new(arguments.format);
        let mut exit = Exit::Done;
        for batch in arguments.keys.chunks(BATCH) {
            for (key, found) in batch.iter().zip(ground.find(batch).await?) {
                let (operation, record) = match found {
                    Found::Known(operation, record) => (operation, record),
                    Found::Unknown(unknown) => {
                        tell_missing(ground, key, &unknown).await?;
                        exit = Exit::No;
                        continue;
                    }
                };
                if arguments.outcome {
                    return print_outcome(&record);
                }
                let detail = Detail::of(&operation, &record, ground.now());
                if answers.print(&detail)?.is_break() {
                    return Ok(exit);
                }
            }
        }
        Ok(exit)
    })
}

/// Prints the bytes of the outcome and nothing else.
fn print_outcome(record: &Record) -> Result<Exit> {
    match &record.outcome {
        Some(outcome @ Outcome::Kept { .. }) => {
            let mut stdout = Stream::stdout();
            let _ = stdout.write(outcome.result().unwrap_or_default())?;
            let _ = stdout.flush()?;
            Ok(Exit::Done)
        }
        Some(Outcome::TooLarge { len_bytes, .. }) => {
            output::note(format_args!(
                "the outcome had {len_bytes} bytes, too many to keep; its BLAKE3 is on record"
            ));
            Ok(Exit::No)
        }
        None => {
            output::note(format_args!(
                "there is no outcome: the key is {}",
                state_text(record.state.kind())
            ));
            Ok(Exit::No)
        }
    }
}

const BATCH: usize = 500;
