//! The view of a store that nobody has changed.

use semel_core::Error;
use semel_core::port::store::Capabilities;

/// The view that a program has of a store without changing anything.
#[derive(Debug)]
pub struct Inspection {
    /// True if it is there; if not, a run makes it.
    pub is_there: bool,
    /// Its promises, as far as they can be seen before it is there.
    pub capabilities: Option<Capabilities>,
    /// The reason for which it refuses each of the statements, as far as it can be asked.
    pub refused: Vec<Option<Error>>,
    /// The reason for which no worker can use it as it is set up now, although it can be looked at.
    pub unfit: Option<Error>,
}
