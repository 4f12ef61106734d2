//! The engine of Semel in a seeded world, to be judged from outside.
//!
//! A story is a handful of operations, two or three workers that run the engine's own
//! [`Consumer`](semel_engine::consumer::Consumer) or answer callers by its `once`, a broker or those callers, a store
//! and a far side. A seed fixes everything: what is published, what is lost on its way there or back, what takes long, who is killed and who stands still. Time is
//! tokio's paused clock. [`play`] plays one and says what it came to; [`minimised`] tells one that fails with as few of
//! its faults as it needs.
//!
//! Not for what a wire or a disk does: brokers and stores are doubles here.

mod answers;
mod broker;
mod dice;
mod effect;
mod fault;
mod file;
mod judge;
mod kind;
mod life;
mod once;
mod once_store;
mod plan;
mod play;
mod provider;
mod store;
mod story;
mod streamed;
mod tables;
mod watch;
mod worker;
mod world;

pub use dice::Site;
pub use kind::Kind;
pub use play::{Told, minimised, play};
pub use story::{Clocks, Story};
