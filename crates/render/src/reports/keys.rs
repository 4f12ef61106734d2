//! Records of keys: as rows, in full, and explained.

mod detail;
mod entry;
mod explanation;

pub use detail::describe_bytes;
pub use explanation::Command;
