//! Orders about records, as every door gives them: who gives one and why, how many go to the store at once, and why it
//! refuses one.

mod left;

pub use left::Left;

use semel_core::decide::Refusal;
use semel_core::{Note, Timestamp};

use crate::relative_time::when;

/// Makes the note for the audit trail: who orders a change, and why, on one line each.
pub fn note(by: &str, reason: &str) -> Note {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    Note {
        by: one_line(by).into(),
        reason: one_line(reason).into(),
    }
}

/// Explains on one line why a store refused an order: the record has changed since the plan.
pub fn refusal_text(refusal: Refusal, now: Timestamp) -> String {
    match refusal {
        Refusal::Absent => "its record is gone meanwhile".to_owned(),
        Refusal::State(state) => {
            let state = state.as_str().replace('_', " ");
            format!("it is {state} meanwhile")
        }
        Refusal::NotQuiet { until } => format!(
            "its call can still land until {}; ask again then",
            when(until, now)
        ),
    }
}

/// The number of orders that are given at once, and of records that are looked up at once.
pub const BATCH: usize = 500;

#[cfg(test)]
mod tests {
    use semel_core::StateKind;

    use super::*;

    #[test]
    fn a_note_has_one_line_of_each() {
        let note = note("ada\nlovelace", "  seen at\tthe provider ");
        assert_eq!(
            (&*note.by, &*note.reason),
            ("ada lovelace", "seen at the provider")
        );
    }

    #[test]
    fn a_refusal_says_how_the_record_stands() {
        let text = |refusal| refusal_text(refusal, Timestamp::EPOCH);
        assert_eq!(text(Refusal::Absent), "its record is gone meanwhile");
        assert_eq!(
            text(Refusal::State(StateKind::InDoubt)),
            "it is in doubt meanwhile"
        );
        let until = Timestamp::from_millis(1_000);
        assert!(text(Refusal::NotQuiet { until }).starts_with("its call can still land until"));
    }
}
