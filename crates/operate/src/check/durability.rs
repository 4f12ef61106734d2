//! The demands of an effect's class on its store. The preflight of a store reads what it offers.

use semel_config::Accepted;
use semel_core::port::store::Durability;
use semel_core::{Error, ErrorKind, Result};
use semel_engine::effect::{Class, OnDoubt};

/// A store that gives less than a class needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// True if the promise of the class itself no longer holds; else it is weakened.
    pub is_broken: bool,
    /// The loss, and its consequence.
    pub why: &'static str,
}

/// Compares the needs of a class with what the answers of its store survive.
///
/// | survives | transactional | keyed | unkeyed, park | unkeyed, repeat | streamed |
/// |---|---|---|---|---|---|
/// | nothing | broken | broken | broken | weakened | weakened |
/// | `kill -9` | weakened | weakened | broken | weakened | weakened |
/// | a power cut, or more | kept | kept | kept | kept | kept |
///
/// Everything that is lost was acknowledged before. A transactional effect in the store's own database is lost
/// with its record, and nothing happens twice; a keyed effect is recognised by its provider; and an effect that
/// may be repeated is repeated. Only a parked effect depends on its last record.
pub const fn shortfall(class: Class, survives: Durability) -> Option<Shortfall> {
    let (is_broken, why) = match (survives, class) {
        (Durability::PowerCut | Durability::NodeLoss, _) => return None,
        // Its records are with the broker; the store keeps the messages that are set aside.
        (Durability::Kill, Class::Streamed) => (
            false,
            "a power cut takes the last messages that were set aside",
        ),
        (Durability::Process, Class::Streamed) => (
            false,
            "messages that were set aside are lost when the store ends or crashes",
        ),
        (Durability::Kill, Class::Transactional) => (
            false,
            "a power cut takes the last records, and with them effects that were acknowledged",
        ),
        (Durability::Kill, Class::Keyed { .. }) => (
            false,
            "after a power cut the last calls may be made again, which the provider recognises \
             inside its window",
        ),
        (Durability::Kill, Class::Unkeyed(OnDoubt::Park)) => (
            true,
            "after a power cut a call that was made may be made again, and nobody would know",
        ),
        (Durability::Kill, Class::Unkeyed(OnDoubt::Repeat)) => (
            false,
            "after a power cut the last calls may be made again without being listed",
        ),
        (Durability::Process, Class::Transactional) => (
            true,
            "what the store loses when it ends or crashes was acknowledged, so that effects are \
             lost or come twice",
        ),
        (Durability::Process, Class::Keyed { .. }) => (
            true,
            "what the store loses when it ends or crashes is called again, also after the \
             provider's window",
        ),
        (Durability::Process, Class::Unkeyed(OnDoubt::Park)) => (
            true,
            "what the store loses when it ends or crashes is called again, and nobody would know",
        ),
        (Durability::Process, Class::Unkeyed(OnDoubt::Repeat)) => (
            false,
            "what the store loses when it ends or crashes is called again without being listed, and \
             messages that were set aside are lost with it",
        ),
    };
    Some(Shortfall { is_broken, why })
}

/// Refuses to start an effect whose promise the store cannot keep, unless that is accepted by name.
///
/// # Errors   `Unsupported`, with advice
pub fn check(name: &str, class: Class, survives: Durability, accepted: Accepted) -> Result<()> {
    match shortfall(class, survives) {
        Some(Shortfall {
            is_broken: true,
            why,
        }) if !accepted.durability => Err(refused(name, why)),
        Some(_) | None => Ok(()),
    }
}

fn refused(name: &str, why: &str) -> Error {
    let message = format!(
        "{name}: the store gives less than the class of this effect needs: {why}; set up the store as \
         its warnings say, or run all the same with {OVERRIDE}"
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// The setting that overrides the rule.
pub const OVERRIDE: &str = "`accept = [\"durability\"]` under `[store]`";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const KEYED: Class = Class::Keyed {
        provider_window: Duration::from_secs(1),
    };
    const PARK: Class = Class::Unkeyed(OnDoubt::Park);
    const REPEAT: Class = Class::Unkeyed(OnDoubt::Repeat);

    #[test]
    fn each_class_needs_what_its_promise_rests_on() {
        const KEPT: Option<bool> = None;
        const WEAKENED: Option<bool> = Some(false);
        const BROKEN: Option<bool> = Some(true);
        let classes = [Class::Transactional, KEYED, PARK, REPEAT];
        for (survives, verdicts) in [
            (Durability::Process, [BROKEN, BROKEN, BROKEN, WEAKENED]),
            (Durability::Kill, [WEAKENED, WEAKENED, BROKEN, WEAKENED]),
            (Durability::PowerCut, [KEPT; 4]),
            (Durability::NodeLoss, [KEPT; 4]),
        ] {
            let found = classes.map(|class| shortfall(class, survives).map(|it| it.is_broken));
            assert_eq!(found, verdicts, "{survives:?}");
        }
    }

    #[test]
    fn a_broken_promise_is_refused_unless_it_is_accepted_by_name() {
        let (no, yes) = (Accepted::default(), Accepted::ALL);
        let check = |class, accepted| check("pay", class, Durability::Kill, accepted);
        assert!(check(Class::Transactional, no).is_ok(), "weakened is told");
        let refused = check(PARK, no).expect_err("refused").to_string();
        assert!(
            refused.starts_with("pay: ") && refused.contains("accept"),
            "{refused}"
        );
        assert!(check(PARK, yes).is_ok());
    }
}
