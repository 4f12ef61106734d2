//! `semel in-doubt show`.

use semel_core::{Result, StateKind};
use semel_operate::in_doubt::{WholeDoubt, message_of};

use crate::Exit;
use crate::args::in_doubt::Show;
use crate::command::keys::tell_missing;
use crate::command::operate::{self, Found};
use crate::output::{self, Answers, key_text, state_text};

/// Prints the record of a key in doubt, and its message.
pub(super) fn show(arguments: &Show) -> Result<Exit> {
    operate::look(&arguments.common, async |ground| {
        let key = &arguments.key;
        let (operation, record) = match ground.find_one(key).await? {
            Found::Known(operation, record) => (operation, record),
            Found::Unknown(unknown) => {
                tell_missing(ground, key, &unknown).await?;
                return Ok(Exit::No);
            }
        };
        if record.state.kind() != StateKind::InDoubt {
            output::note(format_args!(
                "{} is not in doubt but {}: {}",
                key_text(operation.key.as_str()),
                state_text(record.state.kind()),
                ground.command("keys explain", &operation)
            ));
            return Ok(Exit::No);
        }
        let parked = message_of(&ground.store, &operation).await?;
        let arrival = ground.arrival_of(&operation.scope);
        let now = ground.now();
        let doubt = WholeDoubt::of(&operation, &record, parked.as_ref(), arrival, now);
        let _ = Answers::new(arguments.format).print(&doubt)?;
        Ok(Exit::Done)
    })
}
