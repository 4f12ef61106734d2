//! `semel store stats`.

use semel_core::Result;
use semel_operate::store::{Holdings, Statistics};

use crate::Exit;
use crate::args::store::Whole;
use crate::command::operate;
use crate::output::Answers;

/// Counts what the store holds.
pub(super) fn stats(arguments: &Whole) -> Result<Exit> {
    operate::look(&arguments.place.common(), async |ground| {
        let (url, accepted) = (ground.url.to_string(), ground.accepted.names());
        let holdings = Holdings::of(&ground.store, url, accepted).await?;
        let _ = Answers::new(arguments.format).print(&Statistics::of(&holdings))?;
        Ok(Exit::Done)
    })
}
