//! The format of a store, which tells which versions can use it.

/// The formats of a store.
#[derive(Clone, Copy, Debug)]
pub struct Formats {
    /// The format that the store has; none if there is no store.
    pub stored: Option<i64>,
    /// The format that this version writes.
    pub newest: i64,
}
