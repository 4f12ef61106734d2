//! The engine of Semel in a seeded world, judged from outside.
//!
//! A scenario is a handful of operations, two or three workers that run the engine's own
//! [`Consumer`](semel_engine::consumer::Consumer), answer callers by its `once`, or clients of HTTP by the layer of the
//! gateway or by the claim API, a broker or those callers, a store and a far side. A seed fixes everything: the messages, those that are lost on their way there or back, the slow
//! calls, and the workers that are killed or stand still. Time is tokio's paused clock. [`play`] plays a scenario and
//! returns its result; [`minimised`] replays one that fails with as few of its faults as it needs.
//!
//! Not for faults of a network or a disk: brokers and stores are doubles here.

mod broker;
mod claims;
mod course;
mod dice;
mod disk;
mod effect;
mod fault;
mod file;
mod http;
mod judge;
mod kind;
mod life;
mod lock;
mod once;
mod once_store;
mod payload;
mod plan;
mod play;
mod producers;
mod provider;
mod queue;
mod relays;
mod scenario;
mod store;
mod streamed;
mod tables;
mod untold;
mod watch;
mod worker;
mod world;

pub use dice::Site;
pub use kind::Kind;
pub use play::{minimised, play};
pub use producers::{PUBLISHED_CASES, published};
pub use relays::{RELAYED_CASES, relayed};
pub use scenario::{Clocks, Scenario, Told};
