//! Commits of finished prefixes, one at a time, each until its answer is here.
//!
//! The client crate reports to nobody how a commit ended that is not waited for, and a refused one, as during a
//! rebalance, may have no later one that makes it good. So a thread of its own waits.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use crate::shared::{Assignment, AssignmentId, Shared, State};

/// Does the thread's work: commits finished offsets, as often as `every` says and soon after the last one in hand,
/// until an end is asked for.
pub(crate) fn run(consumer: &BaseConsumer<impl ConsumerContext>, shared: &Shared, every: Duration) {
    while shared.commit_is_due(every) {
        // A refused commit is repeated when the next one is due.
        let _ = commit(consumer, shared, None);
    }
}

/// Commits offsets that are finished and not committed, of these assignments or of all.
pub(crate) fn commit(
    consumer: &BaseConsumer<impl ConsumerContext>,
    shared: &Shared,
    only: Option<&[AssignmentId]>,
) -> KafkaResult<()> {
    // An older offset must not come to the broker behind a newer one.
    let _alone = shared.commits_alone();
    let finished = finished(&mut shared.lock(), only);
    let mut offsets = TopicPartitionList::new();
    for (_, topic, partition, offset) in &finished {
        offsets.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
    }
    if finished.is_empty() {
        return Ok(());
    }
    consumer.commit(&offsets, CommitMode::Sync)?;
    let mut state = shared.lock();
    for (id, .., offset) in finished {
        state.committed(id, &[], offset);
    }
    Ok(())
}

/// Returns the offsets that are newly finished.
fn finished(
    state: &mut State,
    only: Option<&[AssignmentId]>,
) -> Vec<(AssignmentId, Box<str>, i32, i64)> {
    if state.is_in_doubt {
        // They might be older than those committed.
        return Vec::new();
    }
    let all = state.assignments(only).filter_map(|(id, assignment)| {
        let mut offset = assignment.prefix.to_commit()?;
        if semel_core::planted("K01") {
            // Everything finished, as if all records before it were.
            offset += i64::try_from(assignment.prefix.span()).unwrap_or(0);
        }
        let Assignment {
            topic, partition, ..
        } = assignment;
        Some((id, topic.clone(), *partition, offset))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_committed_alone_while_a_later_commit_is_in_doubt() {
        let shared = Shared::default();
        let mut state = shared.lock();
        let id = state.assign("t", 0, true);
        for (_, assignment) in state.assignments(None) {
            assignment.prefix.read(0);
            assignment.prefix.finish(0);
        }
        state.is_in_doubt = true;
        assert_eq!(finished(&mut state, None), []);
        state.is_in_doubt = false;
        assert_eq!(finished(&mut state, None), [(id, "t".into(), 0, 1)]);
    }
}
