//! The drills.

mod crash;
mod poison;
mod replay;
mod store_down;
mod storm;
mod ttl;

use semel_core::Result;

use crate::report::{Draft, Report};
use crate::scene::refused;
use crate::{Commands, Setup};

/// A bad day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drill {
    /// A worker is killed in the middle of its effects, and everything comes again.
    Crash,
    /// The store goes away under a worker, and comes back.
    StoreDown,
    /// Everything comes again after it was finished.
    Replay,
    /// Everything comes again as late as it can.
    Ttl,
    /// Almost nothing but duplicates comes, for as long as it takes to be noticed.
    Storm,
    /// Messages come that cannot be worked on, among others that can.
    Poison,
}

impl Drill {
    /// Every drill.
    pub const ALL: [Self; 6] = [
        Self::Crash,
        Self::StoreDown,
        Self::Replay,
        Self::Ttl,
        Self::Storm,
        Self::Poison,
    ];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::StoreDown => "store-down",
            Self::Replay => "replay",
            Self::Ttl => "ttl",
            Self::Storm => "storm",
            Self::Poison => "poison",
        }
    }

    /// Describes it in one clause.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Crash => "A worker is killed in the middle of its effects",
            Self::StoreDown => "The store goes away under a worker, and comes back",
            Self::Replay => "Everything comes again after it was finished",
            Self::Ttl => "Everything comes again as late as it can",
            Self::Storm => "Almost nothing but duplicates comes, for up to a minute",
            Self::Poison => "Messages come that cannot be worked on",
        }
    }
}

/// Plays a drill, and reports it.
///
/// # Errors
///
/// `InvalidInput`: the commands that break and mend the store do not fit the drill; nothing has begun. `Unavailable` and
/// `Timeout` with code `drill-failed`: the folder takes no files, the worker does not start, or a command fails.
///
/// # Cancel safety
///
/// Dropping it kills the worker and a command that runs. Call [`mend`](crate::mend) then, and after an error: the store
/// may be broken.
pub async fn play(drill: Drill, setup: &Setup) -> Result<Report> {
    let commands = fitting(drill, setup)?;
    let pipeline = &setup.subject.pipeline;
    let mut draft = Draft::new(drill.as_str(), pipeline, &setup.alerts);
    match drill {
        Drill::Crash => crash::play(setup, &mut draft).await,
        Drill::StoreDown => store_down::play(setup, &mut draft, commands).await,
        Drill::Replay => replay::play(setup, &mut draft).await,
        Drill::Ttl => ttl::play(setup, &mut draft).await,
        Drill::Storm => storm::play(setup, &mut draft).await,
        Drill::Poison => poison::play(setup, &mut draft).await,
    }?;
    Ok(draft.end())
}

/// Returns the commands that break the store and mend it. Refuses those that the drill would not run, and a drill that
/// lacks them.
fn fitting(drill: Drill, setup: &Setup) -> Result<Option<&Commands>> {
    let (store, commands) = (&setup.store, setup.commands.as_ref());
    match (drill, store, commands) {
        (Drill::StoreDown, None, Some(_)) => Err(refused(
            "store-down moves the folder of its own store away; --break and --mend are for a store that --store names",
        )),
        (Drill::StoreDown, Some(_), None) => Err(refused(
            "store-down breaks and mends the store that --store names by commands of yours; name both with --break and \
             --mend, or leave out --store",
        )),
        (Drill::Ttl | Drill::Storm | Drill::Poison, _, Some(_)) => Err(refused(format!(
            "{} breaks no store; --break and --mend are for crash, replay and store-down",
            drill.as_str()
        ))),
        _ => Ok(commands),
    }
}
