//! One operation at a time, from a program's own code: `once(key, effect)`.
//!
//! [`Once`] is the handle; [`Declared`] names an operation and says how it is run. Each call is a
//! task of its own that claims the key, runs the effect, renews its lease, settles, and only then
//! answers: so a caller who goes away leaves nothing half done. Batches are the same call with more
//! items. Not for messages from a broker: that is [`crate::consumer`].
//!
//! ```
//! # use std::sync::Arc;
//! use semel_engine::once::Once;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let clock = Arc::new(semel_engine::system::SystemClock::new());
//! # let store = Arc::new(semel_store_memory::MemoryStore::new(clock));
//! let once = Once::new(store);
//! for _duplicate in 0..2 {
//!     let receipt = once.operation("charge").once("pay-1", async |_op| Ok(42)).await?;
//!     assert_eq!(*receipt.value(), 42);
//! }
//! # Ok(())
//! # }
//! ```

mod admission;

mod batch;
mod breaker;
mod call;
mod declared;
mod error;
mod failure;
pub mod inbox;
mod key;
mod op;
mod outcome;
mod pending;
mod receipt;
mod resolve;
mod round;
mod run;
mod running_items;
mod settings;
mod settle;
mod shared;
mod spans;
mod store_calls;
mod values;

pub use batch::{Batch, Granted};
pub use breaker::{EffectBreaker, TargetAway};
pub use declared::Declared;
pub use error::{Cause, Error, Happened};
pub use failure::{Dropped, Failure, Panicked, TimedOut};
pub use key::ToKey;
pub use op::Op;
pub use outcome::{Remember, TYPED_JSON, Typed, Unreadable};
pub use pending::Pending;
pub use receipt::{Answered, Receipt};
pub use settings::Settings;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::source::Source;
use semel_core::{Claimant, Store};

use crate::event::Unobserved;
use crate::handler::Builder;
use crate::surroundings::Surroundings;
use crate::system::{SystemClock, SystemEntropy};
use shared::Shared;

/// Runs operations over one store. Cheap to clone; all clones share one state.
pub struct Once<S> {
    shared: Arc<Shared<S>>,
}

impl<S: Store + Clone> Once<S> {
    /// Returns a handle over `store`, with the system's clock and entropy, the default settings, no
    /// observer, and a sweep every minute.
    pub fn new(store: S) -> Self {
        let entropy = SystemEntropy;
        let surroundings = Surroundings {
            clock: Arc::new(SystemClock::new()),
            claimant: Claimant::random(&entropy),
            entropy: Arc::new(entropy),
            observer: Arc::new(Unobserved),
        };
        Self::with(store, surroundings, Settings::default(), Some(SWEEP_EVERY))
    }

    /// Returns a handle over `store`, with everything given. `sweep_every` is the time between two
    /// removals of records past their window; `None` leaves that to another process.
    pub fn with(
        store: S,
        surroundings: Surroundings,
        defaults: Settings,
        sweep_every: Option<Duration>,
    ) -> Self {
        let shared = Arc::new(Shared::new(store, surroundings, defaults, sweep_every));
        Self { shared }
    }

    /// Returns the operation of that name, with the default settings.
    pub fn operation(&self, name: &str) -> Declared<S> {
        Declared::new(Arc::clone(&self.shared), name)
    }

    /// Returns a consumer of that name over `source`, with the default settings.
    ///
    /// [`Once::close`] does not wait for it: let it stop first.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`]
    pub fn consumer<Src: Source>(&self, name: &str, source: Src) -> Result<Builder<S, Src>, Error> {
        let store = self.shared.store()?;
        self.shared.sweep_beside(&store);
        let surroundings = self.shared.surroundings.clone();
        Ok(Builder::new(
            name,
            source,
            store,
            surroundings,
            &self.shared.defaults,
        ))
    }

    /// Returns the store.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`]
    pub fn store(&self) -> Result<S, Error> {
        self.shared.store()
    }

    /// Returns the clock, the entropy and the observer.
    pub fn surroundings(&self) -> &Surroundings {
        &self.shared.surroundings
    }

    /// Returns the settings that operations begin with.
    pub fn defaults(&self) -> &Settings {
        &self.shared.defaults
    }

    /// Takes no more calls on any clone, waits until the running ones are settled, and lets the
    /// store go: its folder or file is free for other processes then, unless another handle of it is
    /// left.
    ///
    /// Takes as long as the longest effect. Without it, an effect that runs when the process ends is
    /// left to its lease.
    ///
    /// # Cancel safety   safe: running calls go on, and no more calls are taken
    pub async fn close(&self) {
        self.shared.close().await;
    }
}

impl<S> Clone for Once<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S> fmt::Debug for Once<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

const SWEEP_EVERY: Duration = Duration::from_secs(60);
