//! The figures that an observer gets of calls: how their effects ended, and how long they took.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::Claimant;
use semel_engine::effect::{OnDoubt, Verdict};
use semel_engine::event::{Event, FanOut, Observer, Unobserved};
use semel_engine::once::{Failure, Once, Settings};
use semel_engine::surroundings::Surroundings;
use tokio::time::sleep;

use super::secs;
use crate::world::World;

/// A failure whose text is asked for this many times.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<AtomicUsize>);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fetch_add(1, Ordering::SeqCst);
        f.write_str("no")
    }
}

impl Error for Counted {}

/// The ends of effects, with the time that each took.
#[derive(Default)]
struct Ends(Mutex<Vec<(&'static str, Duration)>>);

impl Observer for Ends {
    fn observe(&self, _pipeline: &str, event: &Event<'_>) {
        if let Event::EffectEnded {
            verdict,
            took,
            with_claim,
            ..
        } = event
        {
            assert!(!with_claim);
            let end = match verdict {
                Verdict::Done(_) => "done",
                Verdict::NotApplied { .. } => "not applied",
                Verdict::MaybeApplied { .. } => "maybe applied",
                Verdict::Dead { .. } => "dead",
                other => panic!("{other:?}"),
            };
            self.0.lock().expect("no panic").push((end, *took));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_effect_that_began_is_told_once_with_its_end_and_its_time() {
    let world = World::new();
    let ends = Arc::new(Ends::default());
    let surroundings = Surroundings {
        clock: Arc::new(world.clock),
        entropy: world.chance.clone(),
        claimant: Claimant::random(&*world.chance),
        observer: ends.clone(),
    };
    let settings = Settings::default();
    let site = Once::with(Arc::clone(&world.store), surroundings, settings, None);
    let operation = || site.operation("test").unkeyed(OnDoubt::Park);
    let failing = |why: &'static str| async move {
        sleep(secs(1)).await;
        Err::<String, _>(match why {
            "busy" => Failure::not_applied(why),
            "no answer" => Failure::maybe_applied(why),
            _ => Failure::dead(why),
        })
    };
    let done = operation().once("a", async |_| {
        sleep(secs(3)).await;
        Ok("receipt".to_owned())
    });
    assert!(done.await.is_ok());
    let again = operation().once("a", async |_| Ok(String::new())).await;
    assert!(
        again.is_ok_and(|it| it.is_replay()),
        "a replay has no effect"
    );
    for key in ["busy", "no answer", "declined"] {
        let failed = operation().once(key, async move |_| failing(key).await);
        assert!(failed.await.is_err());
    }
    let late = operation().timeout(Some(secs(2)));
    let late = late.once("e", async |_| {
        sleep(secs(60)).await;
        Ok(String::new())
    });
    assert!(late.await.is_err());

    let told = ends.0.lock().expect("no panic").clone();
    let ends: Vec<_> = told
        .iter()
        .map(|(end, took)| (*end, took.as_secs()))
        .collect();
    let expected = [
        ("done", 3),
        ("not applied", 1),
        ("maybe applied", 1),
        ("dead", 1),
        ("maybe applied", 2),
    ];
    assert_eq!(ends, expected);
}

#[tokio::test(start_paused = true)]
async fn the_text_of_a_failure_that_nobody_watches_is_made_for_the_record_alone() {
    let nobody: [Arc<dyn Observer>; 2] = [Arc::new(Unobserved), Arc::new(Unobserved)];
    let observers: [(Arc<dyn Observer>, usize); 3] = [
        (Arc::new(Unobserved), 1),
        (Arc::new(FanOut::new(nobody)), 1),
        // Of the effect that ended, of the record, and of the release.
        (Arc::new(Ends::default()), 3),
    ];
    for (observer, times) in observers {
        let world = World::new();
        let surroundings = Surroundings {
            clock: Arc::new(world.clock),
            entropy: world.chance.clone(),
            claimant: Claimant::random(&*world.chance),
            observer,
        };
        let settings = Settings::default();
        let site = Once::with(Arc::clone(&world.store), surroundings, settings, None);
        let failure = Counted::default();
        let failing = failure.clone();
        let operation = site.operation("test");
        let failed = operation.once("a", async move |_| {
            Err::<(), _>(Failure::not_applied(failing))
        });
        assert!(failed.await.is_err());
        assert_eq!(failure.0.load(Ordering::SeqCst), times);
    }
}
