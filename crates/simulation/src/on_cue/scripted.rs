//! Effects that follow a script, call by call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use semel_engine::effect::{BatchEffect, BulkEffect, Call, Effect, Probe, Verdict};

use super::World;
use super::crash::Crash;
use super::sink::EffectSink;

/// The act of one call.
#[derive(Clone, Debug)]
pub enum Act {
    /// Arrives, and answers so.
    Do,
    /// Waits, arrives, waits, and answers so.
    Slow(Duration, Duration),
    /// Does not arrive, and answers this.
    Say(Verdict),
    /// Waits, does not arrive, and answers this.
    SaySlowly(Duration, Verdict),
    /// Arrives, and answers this.
    DoAndSay(Verdict),
    /// Does not arrive, and panics.
    Panic,
    /// The worker dies before anything is sent.
    DieBefore,
    /// The worker dies with the effect on its way; it arrives this much later.
    DieInFlight(Duration),
    /// The effect arrives, and the worker dies before it gets the answer.
    DieApplied,
    /// The worker dies as soon as it knows the result.
    DieKnowing,
}

/// An effect on [`EffectSink`] with a script.
pub struct Scripted {
    sink: Arc<EffectSink>,
    crash: Crash,
    acts: Mutex<VecDeque<Act>>,
    otherwise: Act,
    probe: Probe,
    quiet: Duration,
}

impl Scripted {
    /// One act per call, in order; further calls simply arrive.
    pub fn new(world: &World, crash: &Crash, acts: impl IntoIterator<Item = Act>) -> Arc<Self> {
        Arc::new(Self::bare(world, crash, acts))
    }

    /// The same act in every call.
    pub fn always(world: &World, crash: &Crash, otherwise: Act) -> Arc<Self> {
        Arc::new(Self {
            otherwise,
            ..Self::bare(world, crash, [])
        })
    }

    /// An effect that simply arrives, and answers a probe with `probe`.
    pub fn probed(
        world: &World,
        crash: &Crash,
        acts: impl IntoIterator<Item = Act>,
        probe: Probe,
        quiet: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            probe,
            quiet,
            ..Self::bare(world, crash, acts)
        })
    }

    fn bare(world: &World, crash: &Crash, acts: impl IntoIterator<Item = Act>) -> Self {
        Self {
            sink: Arc::clone(&world.sink),
            crash: crash.clone(),
            acts: Mutex::new(acts.into_iter().collect()),
            otherwise: Act::Do,
            probe: Probe::Unknown,
            quiet: Duration::from_secs(60),
        }
    }
}

impl Effect for Scripted {
    async fn call(&self, call: Call) -> Verdict {
        let _open = self.sink.begin(&call);
        let act = self.acts.lock().expect("scripts never panic").pop_front();
        if act.is_some() {
            self.crash.befalls();
        }
        let act = act.unwrap_or_else(|| self.otherwise.clone());
        match act {
            Act::Do => self.sink.arrive(&call),
            Act::Slow(before, after) => {
                tokio::time::sleep(before).await;
                self.sink.arrive(&call);
                tokio::time::sleep(after).await;
            }
            Act::Say(verdict) => return verdict,
            Act::SaySlowly(before, verdict) => {
                tokio::time::sleep(before).await;
                return verdict;
            }
            Act::DoAndSay(verdict) => {
                self.sink.arrive(&call);
                return verdict;
            }
            Act::Panic => std::panic::resume_unwind(Box::new("the effect panics on cue")),
            Act::DieBefore => return self.crash.now().await,
            Act::DieInFlight(after) => {
                let sink = Arc::clone(&self.sink);
                // The network outlives the worker.
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    sink.arrive(&call);
                });
                return self.crash.now().await;
            }
            Act::DieApplied => {
                self.sink.arrive(&call);
                return self.crash.now().await;
            }
            Act::DieKnowing => {
                self.sink.arrive(&call);
                self.crash.strike();
                tokio::task::yield_now().await;
            }
        }
        Verdict::Done(Bytes::from_static(b"done"))
    }

    async fn probe(&self, _call: &Call) -> Probe {
        self.probe.clone()
    }

    fn quiet(&self) -> Duration {
        self.quiet
    }
}

/// A [`Scripted`] effect as one stream.
pub struct OneByOne(pub Arc<Scripted>);

impl BatchEffect for OneByOne {
    async fn call(&mut self, batch: &[Call]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for call in batch {
            verdicts.push(Effect::call(&*self.0, call.clone()).await);
        }
        verdicts
    }
}

impl BulkEffect for OneByOne {
    async fn call(&self, batch: &[Call]) -> Vec<Verdict> {
        BatchEffect::call(&mut Self(Arc::clone(&self.0)), batch).await
    }
}

/// A stream that forgets the verdicts of all but the first call of a batch.
pub struct Forgetful(pub Arc<Scripted>);

impl BatchEffect for Forgetful {
    async fn call(&mut self, batch: &[Call]) -> Vec<Verdict> {
        vec![Effect::call(&*self.0, batch[0].clone()).await]
    }
}

/// The verdict of a call that was surely not applied.
pub fn not_applied() -> Verdict {
    Verdict::NotApplied {
        error: "refused".into(),
        retry_after: None,
    }
}

/// The verdict of a call that this attempt surely did not apply, and no later one will.
pub fn dead() -> Verdict {
    Verdict::Dead {
        decisive: false,
        error: "refused for good".into(),
    }
}

/// The same, for the earlier attempts as well.
pub fn dead_for_all() -> Verdict {
    Verdict::Dead {
        decisive: true,
        error: "refused for good, as before".into(),
    }
}

/// The verdict of a call whose result nobody knows.
pub fn maybe_applied() -> Verdict {
    Verdict::MaybeApplied {
        error: "the answer was lost".into(),
    }
}
