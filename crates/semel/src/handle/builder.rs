//! Building a [`Semel`]: settings and inputs, then a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{AnyStore, Claimant, Clock, Entropy, Result, Store};
use semel_engine::event::{Observer, Unobserved};
use semel_engine::once::{Once, Settings};
use semel_engine::surroundings::Surroundings;
use semel_engine::system::{SystemClock, SystemEntropy};

use super::Semel;
use crate::url;

/// The settings, clock, entropy and observer of a [`Semel`] that is being built.
///
/// ```
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let semel = semel::Semel::builder()
///     .settings(|settings| {
///         settings.wait = Duration::from_secs(1);
///         settings.lease = Duration::from_secs(10);
///     })
///     .open("memory:")
///     .await?;
/// assert_eq!(semel.operation("charge").settings().wait, Duration::from_secs(1));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is opened before `open` or `with_store`"]
pub struct Builder {
    clock: Option<Arc<dyn Clock>>,
    entropy: Arc<dyn Entropy>,
    observer: Arc<dyn Observer>,
    settings: Settings,
    sweep_every: Option<Duration>,
}

impl Builder {
    /// Changes the settings that every operation and consumer begins with.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Sets the observer, which sees every decision. It is called on the engine's own tasks, so it
    /// must be quick.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Sets the clock, also of the store that [`Builder::open`] opens. Without it, time comes from
    /// the system's clock, and for a store on a server from the server's. A clock for a store on a
    /// server is for tests: records of two clocks do not mix.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Sets the source of random bytes. Its bytes must be practically unique over all processes
    /// that share the store, because claim ids are made of them.
    pub fn entropy(mut self, entropy: impl Entropy) -> Self {
        self.entropy = Arc::new(entropy);
        self
    }

    /// Sets how often records past their window are removed; every minute by default. `None` leaves
    /// the sweep to another process, such as `semel run` over the same store.
    pub fn sweep_every(mut self, every: impl Into<Option<Duration>>) -> Self {
        self.sweep_every = every.into();
        self
    }

    /// Opens the store of `url`; see [`Semel::open`].
    ///
    /// # Errors
    ///
    /// those of [`Semel::open`], and `InvalidInput` for settings that are not valid
    ///
    /// # Cancel safety   safe; what was created is there next time
    pub async fn open(self, url: &str) -> Result<Semel> {
        self.settings.check()?;
        let store = url::open(url, self.clock.clone()).await?;
        Ok(self.over(store))
    }

    /// Takes a store that is open. Settings that are not valid are refused at the first call.
    pub fn with_store(self, store: impl Store) -> Semel {
        self.over(AnyStore::new(store))
    }

    fn over(self, store: AnyStore) -> Semel {
        let surroundings = Surroundings {
            claimant: Claimant::random(&*self.entropy),
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            entropy: self.entropy,
            observer: self.observer,
        };
        Semel::over(Once::with(
            store,
            surroundings,
            self.settings,
            self.sweep_every,
        ))
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            clock: None,
            entropy: Arc::new(SystemEntropy),
            observer: Arc::new(Unobserved),
            settings: Settings::default(),
            sweep_every: Some(SWEEP_EVERY),
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("settings", &self.settings)
            .field("sweep_every", &self.sweep_every)
            .finish_non_exhaustive()
    }
}

const SWEEP_EVERY: Duration = Duration::from_secs(60);
