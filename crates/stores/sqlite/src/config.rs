//! Typed settings of the store.

use std::time::Duration;

/// Settings of a store on its file. The defaults suit one host with a few processes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The longest wait for another process that is writing.
    pub busy_timeout: Duration,
    /// Bytes of the file that each of the two connections keeps in memory.
    pub cache_bytes: usize,
    /// Size to which the write-ahead log may grow before it is copied into the file. A page that
    /// many transactions touch is then copied once, at the price of a longer log.
    pub log_bytes: usize,
    /// Calls that may wait for the writer; further ones wait before they are accepted.
    pub queue: usize,
    /// The largest size of the file; beyond it, writes fail with `store-full` and change nothing.
    pub max_file_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(5),
            cache_bytes: 64 << 20,
            log_bytes: 64 << 20,
            queue: 256,
            max_file_bytes: None,
        }
    }
}
