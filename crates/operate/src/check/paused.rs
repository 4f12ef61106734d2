//! The finding of a pipeline or a relay that an order pauses.

use semel_core::Timestamp;

use super::finding::{Finding, warn};
use crate::pipelines::OrderedPause;
use crate::relative_time::when;

/// Finds that an order pauses a pipeline: it does nothing until it is resumed.
pub fn paused(pipeline: &str, order: &OrderedPause, now: Timestamp) -> Finding {
    found("pipeline-paused", pipeline, order, now)
}

/// Finds that an order pauses a relay: it publishes nothing until it is resumed.
pub fn relay_paused(relay: &str, order: &OrderedPause, now: Timestamp) -> Finding {
    found("relay-paused", relay, order, now)
}

/// Finds that no order can be read about a relay, so that none pauses it.
pub fn relay_orders_unread(why: &str) -> Finding {
    let message = format!("orders that pause the relay cannot be read: {why}");
    let advice = "make the store with `semel store migrate --yes --store URL`, or give the user of the relay the right to \
                  read it; until then, stop the worker to stop the relay";
    warn("relay-orders-unread", message, advice)
}

fn found(code: &'static str, name: &str, order: &OrderedPause, now: Timestamp) -> Finding {
    let by = Some(&*order.by).filter(|it| !it.is_empty());
    let by = by.map_or_else(String::new, |by| format!(" by {by}"));
    let reason = Some(&*order.reason).filter(|it| !it.is_empty());
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let since = when(order.since, now);
    let message = format!(
        "an order to {}, given {since}{by}, keeps it from running{reason}",
        order.kind.as_str()
    );
    let advice = format!("let it run again with `semel pipelines resume {name}`");
    warn(code, message, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipelines::PauseKind;
    use crate::samples::{EARLIER, NOW};

    #[test]
    fn a_pause_is_told_with_its_author_and_its_reason() {
        let mut order = OrderedPause {
            kind: PauseKind::Drain,
            since: EARLIER,
            by: "ada".into(),
            reason: "INC-7".into(),
        };
        let found = paused("payments", &order, NOW);
        assert_eq!(found.code, "pipeline-paused");
        let message = &found.message;
        assert!(
            message.starts_with("an order to drain, given "),
            "{message}"
        );
        assert!(
            message.ends_with(" by ada, keeps it from running: INC-7"),
            "{message}"
        );
        assert!(found.advice.contains("semel pipelines resume payments"));
        let found = relay_paused("out", &order, NOW);
        assert_eq!(found.code, "relay-paused");
        assert!(found.advice.contains("semel pipelines resume out"));
        (order.by, order.reason) = ("".into(), "".into());
        let found = paused("payments", &order, NOW);
        assert!(found.message.ends_with(", keeps it from running"));
    }
}
