//! The view of a store that the program does not change.

use semel_core::Error;
use semel_core::port::store::Capabilities;

/// The view that a program has of a store without changing anything.
#[derive(Debug)]
pub struct Inspection {
    /// True if the store exists; if not, a run creates it.
    pub is_there: bool,
    /// Its promises, as far as they can be seen before it exists.
    pub capabilities: Option<Capabilities>,
    /// The reason why it refuses each of the statements, as far as it can be asked.
    pub refused: Vec<Option<Error>>,
    /// The reason why no worker can use it in its present setup, although it can be looked at.
    pub unfit: Option<Error>,
}

#[cfg(test)]
impl Inspection {
    /// A store on this machine, which is there and refuses nothing.
    pub(crate) fn embedded(durability: semel_core::port::store::Durability) -> Self {
        Self {
            is_there: true,
            capabilities: Some(Capabilities {
                kind: "embedded",
                durability,
                shared: false,
                warnings: Vec::new(),
            }),
            refused: Vec::new(),
            unfit: None,
        }
    }
}
