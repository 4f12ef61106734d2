//! Effects that start children, and a test that is one itself.
//!
//! Apart from those in `worker`: until a child has become its program it holds a copy of every open file, and of the
//! lock on it. A pipe that a test closes at that moment stays open, a lock that it gives back stays taken.

#[path = "../worker/call.rs"]
mod call;

mod effect_exec;
mod effect_jsonl;
mod full_disk;
