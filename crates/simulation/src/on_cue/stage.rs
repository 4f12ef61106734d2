//! One world per kind of effect, and the way in which its workers run it.

use semel_engine::effect::Class;

use super::backing::Backing;
use super::fault::Method;
use super::file::{Append, Disk, MemoryFile};
use super::message::member;
use super::scripted::{Act, Scripted};
use super::sink::Recognises;
use super::time::PausedClock;
use super::worker::{Run, Worker};
use super::{KEYED, PARK, PROVIDER_WINDOW, REPEAT, World};

/// The way in which the effect takes part in the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A: appends to an output file, cut back to its mark.
    Output,
    /// A: rows in the store's own transaction.
    Transaction,
    /// B: a provider that recognises the key.
    Keyed,
    /// C1: an unkeyed call, repeated where in doubt.
    Repeat,
    /// C1 as one stream.
    Stream,
    /// C2: an unkeyed call, parked where in doubt.
    Park,
    /// D2: a version gate at both ends.
    Gated,
}

impl Kind {
    /// The class of the kinds that are calls.
    const fn class(self) -> Class {
        match self {
            Self::Keyed => KEYED,
            Self::Repeat | Self::Stream => REPEAT,
            Self::Park => PARK,
            Self::Output | Self::Transaction | Self::Gated => Class::Transactional,
        }
    }
}

/// The world, and the files of its two writers.
pub struct Stage {
    pub kind: Kind,
    pub world: World,
    first: Disk,
    second: Disk,
}

/// The acts of one worker's effect at its first calls.
#[derive(Default)]
pub struct Cue {
    pub acts: Vec<Act>,
    pub appends: Vec<Append>,
}

impl Stage {
    pub fn new(kind: Kind) -> Self {
        let clock = PausedClock::new();
        Self::over(kind, clock, Backing::memory(clock))
    }

    /// A stage whose records are kept in `backing`, which uses `clock`.
    pub fn over(kind: Kind, clock: PausedClock, backing: Backing) -> Self {
        let recognises = match kind {
            Kind::Keyed => Recognises::Keys(PROVIDER_WINDOW),
            Kind::Gated => Recognises::Versions,
            Kind::Output | Kind::Transaction | Kind::Repeat | Kind::Stream | Kind::Park => {
                Recognises::Nothing
            }
        };
        let (first, second) = (Disk::default(), Disk::default());
        Self {
            kind,
            world: World::over(recognises, clock, backing),
            first,
            second,
        }
    }

    /// Runs a worker. The two names are two writers with a file each.
    pub async fn run(&self, mut worker: Worker, name: &'static str, cue: Cue) -> Run {
        if self.kind == Kind::Gated {
            let entity = "json:/entity".parse().expect("the selector is well formed");
            let version = "json:/version"
                .parse()
                .expect("the selector is well formed");
            worker.pipeline.gate = Some((entity, version));
        }
        match self.kind {
            Kind::Output => {
                let crash = worker.crash.clone();
                let disk = if name == "first" {
                    &self.first
                } else {
                    &self.second
                };
                let acts = cue.appends.into();
                worker
                    .output(MemoryFile {
                        name,
                        disk: disk.clone(),
                        crash,
                        acts,
                    })
                    .await
            }
            Kind::Transaction => worker.transaction().await,
            Kind::Stream => {
                let effect = Scripted::new(&self.world, &worker.crash, cue.acts);
                worker.stream(effect, self.kind.class()).await
            }
            Kind::Keyed | Kind::Repeat | Kind::Park | Kind::Gated => {
                let effect = Scripted::new(&self.world, &worker.crash, cue.acts);
                worker.each(effect, self.kind.class()).await
            }
        }
    }

    /// The store calls that claim and that complete.
    pub const fn methods(&self) -> (Method, Method) {
        match self.kind {
            Kind::Output => (Method::Claim, Method::SettleWith),
            Kind::Transaction => (Method::Apply, Method::Apply),
            Kind::Keyed | Kind::Repeat | Kind::Stream | Kind::Park | Kind::Gated => {
                (Method::Claim, Method::Settle)
            }
        }
    }

    /// The number of times that the effect of `key` was applied, wherever it is.
    pub fn effects(&self, key: &str) -> usize {
        if self.kind == Kind::Transaction {
            return (self.world.database.rows)(key);
        }
        if self.kind != Kind::Output {
            return self.world.sink.applied(key);
        }
        let is_its = |line: &&String| member(line.as_bytes(), "key").as_deref() == Some(key);
        let count = |disk: &Disk| {
            let (lines, rest) = disk.lines();
            assert_eq!(rest, "", "no half line is left");
            lines.iter().filter(is_its).count()
        };
        count(&self.first) + count(&self.second)
    }
}
