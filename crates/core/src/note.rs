//! The note that comes with an order.

/// The author of an order and the reason for it, as the audit trail keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name that the author gives. It is not authenticated: anyone who can open a store can write to it.
    pub by: Box<str>,
    /// The reason, one line.
    pub reason: Box<str>,
}
