//! The figures that an observer gets of calls: how their effects ended, and how long they took.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::Claimant;
use semel_engine::effect::{OnDoubt, Verdict};
use semel_engine::event::{Event, Observer};
use semel_engine::once::{Failure, Once, Settings};
use semel_engine::surroundings::Surroundings;
use tokio::time::sleep;

use super::secs;
use crate::world::World;

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
