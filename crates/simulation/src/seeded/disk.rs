//! The content of an output file of one worker, which outlives the worker's lives.

use std::sync::{Arc, Mutex};

use crate::seeded::lock::lock;
use crate::seeded::payload::number_in;

/// The content of a file. Clones are the same file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Vec<u8>>>);

impl Disk {
    /// The number of lines of an operation.
    pub(crate) fn lines_of(&self, operation: usize) -> u64 {
        let content = lock(&self.0);
        let lines = content
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines.filter(|line| number_in(line) == operation).count() as u64
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        lock(&self.0).len() as u64
    }

    pub(crate) fn append(&self, bytes: &[u8]) {
        lock(&self.0).extend_from_slice(bytes);
    }

    /// Cuts it back to a length. Returns whether it was that long.
    pub(crate) fn cut_back(&self, len_bytes: u64) -> bool {
        let keep = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        let mut content = lock(&self.0);
        let has_it = content.len() >= keep;
        content.truncate(keep);
        has_it
    }

    /// Returns whether it ends with a whole line.
    pub(crate) fn is_whole(&self) -> bool {
        lock(&self.0).last().is_none_or(|byte| *byte == b'\n')
    }
}
