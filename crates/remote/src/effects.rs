//! The effects of requests, and the advice on an order of which nobody knows whether it was given.

use semel_core::{Error, ErrorKind};

/// The effects that a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effects {
    /// It changes nothing.
    None,
    /// It carries an order out. What was done is to be looked at there.
    Some(&'static str),
}

impl Effects {
    /// The failure of a request after which nobody knows more than these: it says so.
    pub(crate) fn failure(self, kind: ErrorKind, message: String) -> Error {
        match self {
            Self::None => Error::new(kind, message).not_applied(),
            Self::Some(place) => Error::new(kind, message + &in_doubt(place)).maybe_applied(),
        }
    }
}

/// The advice on an order of which nobody knows whether it was given.
pub(crate) fn in_doubt(place: &str) -> String {
    format!("; the order may have been given: look before you give it again, at {place}")
}

/// Returns the place at which it can be seen what an order has done. `action` is its path, as in `keys/release`.
pub fn place_of(action: &str) -> &'static str {
    // The audit trail of the worker's store has no entries about another database.
    if action.starts_with("relays/") {
        "/v1/relays/dead-letters, and at the audit trail of the outbox's database (semel store audit --store URL)"
    } else if action.starts_with("pipelines/") {
        "/v1/pipelines and /v1/audit (semel store audit); of a relay whose outbox is in another database, at the audit \
         trail there"
    } else {
        "/v1/audit (semel store audit), and where messages are run again at /v1/runs"
    }
}

#[cfg(test)]
mod tests {
    use semel_core::ErrorKind;

    use super::{Effects, place_of};

    #[test]
    fn a_doubtful_order_sends_people_to_where_it_can_be_seen() {
        let told = |action| {
            let effects = Effects::Some(place_of(action));
            effects
                .failure(ErrorKind::Timeout, "late".to_owned())
                .to_string()
        };
        let of_relays = told("relays/dead-letters/drop");
        assert!(of_relays.contains("/v1/relays/dead-letters"), "{of_relays}");
        assert!(!of_relays.contains("/v1/audit"), "{of_relays}");
        let of_pauses = told("pipelines/pause");
        assert!(of_pauses.contains("another database"), "{of_pauses}");
        assert!(told("keys/release").contains("/v1/audit"));
    }
}
