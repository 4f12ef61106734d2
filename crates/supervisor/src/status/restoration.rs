//! The progress of restoring pipelines, from the changelogs that say what was done before.

use semel_core::port::streamed::Restored;
use serde::Serialize;

use super::Doing;

/// The progress of restoring a pipeline, over the partitions that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restoration {
    /// Records of the changelog that were read so far.
    pub read: u64,
    /// The number of records; none while it is not known for all partitions.
    pub records: Option<u64>,
    /// Operations that were found in these records.
    pub operations: u64,
    /// Its partitions.
    pub partitions: Vec<PartitionRestoration>,
}

/// The progress of restoring a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionRestoration {
    /// The number of the partition.
    pub partition: i32,
    pub(crate) state: Doing,
    /// Records of the changelog that were read so far.
    pub read: u64,
    /// The number of records; none while it is not known.
    pub records: Option<u64>,
    /// Operations that were found in these records.
    pub operations: u64,
}

impl Restoration {
    /// Sums up the partitions of a pipeline.
    pub fn of(partitions: &[Restored]) -> Self {
        let records = partitions.iter().map(|it| it.records).sum::<Option<u64>>();
        let partitions: Vec<_> = partitions.iter().map(PartitionRestoration::of).collect();
        Self {
            read: partitions.iter().map(|it| it.read).sum(),
            records,
            operations: partitions.iter().map(|it| it.operations).sum(),
            partitions,
        }
    }

    /// Tells whether all of its partitions are restored.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.partitions.iter().all(PartitionRestoration::is_done)
    }
}

impl PartitionRestoration {
    /// Tells whether the partition is restored.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state != Doing::Restoring
    }

    fn of(restored: &Restored) -> Self {
        Self {
            partition: restored.partition,
            state: if restored.is_done {
                Doing::Running
            } else {
                Doing::Restoring
            },
            read: restored.read,
            records: restored.records,
            operations: restored.operations,
        }
    }
}
