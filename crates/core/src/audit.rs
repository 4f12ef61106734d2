//! The audit trail: who ordered what about which key, when and why.

use crate::decide::Order;
use crate::key::{Key, Scope};
pub use crate::note::Note;
use crate::record::Record;
use crate::time::Timestamp;

/// One entry of the audit trail. It is kept until the store is gone. AUD-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// The time, on the store's clock.
    pub at: Timestamp,
    /// The author and the reason.
    pub note: Note,
    /// The name of the action: `release`, `requeue`, `retry`, `forget`, `hold`, `let-go`, `extend`,
    /// `resolve-applied`, `resolve-not-applied`, `abandon`, `drop`, `import`, `sweep`,
    /// `producer-freeze`, `producer-thaw`, `producer-release`.
    pub action: Box<str>,
    /// The scope of the operation; none where the action concerns the store as a whole.
    pub scope: Option<Scope>,
    /// The key, if it concerns one.
    pub key: Option<Key>,
    /// The state before, in a word or two.
    pub before: Box<str>,
    /// The state now.
    pub after: Box<str>,
}

impl Order {
    /// The name of the order in the audit trail.
    pub const fn action(&self) -> &'static str {
        use crate::decide::Verdict;
        match self {
            Self::Release => "release",
            Self::Requeue => "requeue",
            Self::Retry => "retry",
            Self::Forget => "forget",
            Self::Hold(true) => "hold",
            Self::Hold(false) => "let-go",
            Self::Extend(_) => "extend",
            Self::Resolve(Verdict::Applied { .. }) => "resolve-applied",
            Self::Resolve(Verdict::NotApplied { .. }) => "resolve-not-applied",
            Self::Resolve(Verdict::Abandon { .. }) => "abandon",
        }
    }
}

/// The state of a record, as the audit trail puts it: `absent`, `dead`, `completed, held`.
pub fn standing(record: Option<&Record>) -> Box<str> {
    match record {
        None => "absent".into(),
        Some(record) if record.held => format!("{}, held", record.state.kind()).into(),
        Some(record) => record.state.kind().as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_order_has_a_name_in_the_trail() {
        for (order, name) in [
            (Order::Release, "release"),
            (Order::Requeue, "requeue"),
            (Order::Retry, "retry"),
            (Order::Forget, "forget"),
            (Order::Hold(true), "hold"),
            (Order::Hold(false), "let-go"),
            (Order::Extend(Duration::ZERO), "extend"),
        ] {
            assert_eq!(order.action(), name);
        }
    }

    #[test]
    fn nothing_stands_as_absent() {
        assert_eq!(&*standing(None), "absent");
    }
}
