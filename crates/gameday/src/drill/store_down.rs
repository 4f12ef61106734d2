//! The store goes away under a worker, and comes back.

use std::path::Path;
use std::time::Duration;

use semel_core::{ErrorKind, Result};
use tokio::time::sleep;

use crate::metrics::Samples;
use crate::report::Draft;
use crate::scene::{Scene, check_once, check_twice_at_most, yes};
use crate::worker::{STORE, Worker, cannot, failed};
use crate::{Commands, Setup};

/// Plays it with the drill's own store, or where commands are named, with the store that they break.
pub(super) async fn play(
    setup: &Setup,
    draft: &mut Draft<'_>,
    commands: Option<&Commands>,
) -> Result<()> {
    let scene = Scene::set(setup, Duration::from_millis(20)).await?;
    let mut worker = scene.worker("first").await?;
    worker.feed(&scene.messages("order-", 0..BEFORE, "")).await;
    let done = scene
        .settled(&worker, BEFORE, Duration::from_secs(30))
        .await;
    draft.check(
        "every message has its effect before the outage",
        done && scene.books().operations() == BEFORE as usize,
        format!("{} of {BEFORE}", scene.books().operations()),
    );
    match commands {
        Some(commands) => away(&scene, draft, worker, commands).await,
        None => gone(&scene, draft, worker, &setup.dir.join(STORE)).await,
    }
}

/// The files of an embedded store go, and come back: the worker must stop rather than go on without them.
async fn gone(
    scene: &Scene<'_>,
    draft: &mut Draft<'_>,
    mut worker: Worker,
    folder: &Path,
) -> Result<()> {
    let aside = folder.with_extension("away");
    let moved = |from: &Path, to: &Path| {
        std::fs::rename(from, to).map_err(|it| cannot("move the store", it))
    };
    moved(folder, &aside)?;
    let all = scene.messages("order-", 0..BEFORE + AFTER, "");
    worker.feed(&all).await;
    let before = scene.books().effects();
    draft.happened(format!(
        "sent {BEFORE} messages, moved the folder of the store away, and sent all of them and {AFTER} more"
    ));
    let ended = worker.ended().await?;
    let meanwhile = scene.books().effects().saturating_sub(before);
    draft.happened(format!(
        "the worker applied {meanwhile} more until it stopped; their records went to the folder that was moved"
    ));
    draft.check(
        "the worker stops by itself, with exit code 3",
        ended.status.and_then(|it| it.code()) == Some(3),
        ended.end(),
    );
    let admin = worker.admin;
    let is_silent = worker.ready().await.is_none();
    moved(&aside, folder)?;
    let mut worker = scene.worker("second").await?;
    worker.feed(&all).await;
    draft.happened("moved it back, started a worker anew, and sent all of them once more");
    let counts = worker.end().await?.checked(draft);
    check_once(draft, scene.books());
    draft.check(
        "every message has its effect after the outage",
        scene.books().operations() == (BEFORE + AFTER) as usize,
        format!("{} of {}", scene.books().operations(), BEFORE + AFTER),
    );
    let done = before + meanwhile;
    draft.check(
        "what was done before is recognised, and the rest applied",
        counts.replayed == done && counts.applied + done == u64::from(BEFORE + AFTER),
        format!("{} recognised, {} applied", counts.replayed, counts.applied),
    );
    let silence = || format!("http://{admin}/metrics did not answer");
    draft.alert_of_silence("SemelWorkerDown", is_silent.then(silence));
    Ok(())
}

/// A server goes, and comes back: the worker must wait, or go on without a claim if its pipeline says so.
async fn away(
    scene: &Scene<'_>,
    draft: &mut Draft<'_>,
    mut worker: Worker,
    commands: &Commands,
) -> Result<()> {
    commands.break_it(scene.setup()).await?;
    let more = scene.messages("order-", BEFORE..BEFORE + AFTER, "");
    worker.feed(&more).await;
    draft.happened(format!(
        "sent {BEFORE} messages, broke the store, and sent {AFTER} more"
    ));
    let breaker = |it: &Samples| it.shown("semel_breaker_open", &[]);
    let patience = Duration::from_secs(90);
    let all_done = |it: &Samples| it.sum("semel_deliveries_total", &[]) >= (BEFORE + AFTER).into();
    let fails_open = scene.setup().subject.fails_open;
    let (scrape, is_seen) = scene
        .seen(&worker, patience, |it| {
            breaker(it).is_some() || (all_done(it) && !fails_open)
        })
        .await;
    let shown = breaker(&scrape);
    if shown.is_none() && all_done(&scrape) {
        return Err(failed(
            ErrorKind::Unavailable,
            "the store still answers after the command of --break, which has to break what --store names",
        ));
    }
    draft.check(
        "the outage is noticed, and the store left alone",
        is_seen,
        yes(is_seen),
    );
    let not_ready = scene.becomes(&worker, false, patience).await;
    draft.check(
        "the worker says that it is not ready",
        not_ready,
        yes(not_ready),
    );
    let unprotected = |it: &Samples| it.shown("semel_unprotected_total", &[]);
    let mut ran_unprotected = None;
    if fails_open {
        let (scrape, _) = scene
            .seen(&worker, patience, |it| unprotected(it).is_some())
            .await;
        ran_unprotected = unprotected(&scrape);
    }
    if fails_open {
        let during = scene.books().effects().saturating_sub(BEFORE.into());
        draft.check(
            "effects run without a claim, as fail = \"open\" says",
            during > 0,
            format!("{during} effects"),
        );
        draft.alert("SemelUnprotected", ran_unprotected);
    } else {
        // Effects that were claimed before the store was away have ended by now.
        let before = scene.books().effects();
        sleep(Duration::from_secs(2)).await;
        let during = scene.books().effects() - before;
        let waiting = u64::from(BEFORE + AFTER) - before;
        draft.check(
            "no effect begins without a claim",
            during == 0 && waiting > 0,
            format!("{during} in two seconds, and {waiting} wait"),
        );
    }
    commands.mend_it(scene.setup()).await?;
    draft.happened("mended the store");
    let all = BEFORE + AFTER;
    let back = scene.settled(&worker, all, patience).await;
    let counts = worker.end().await?.checked(draft);
    draft.check(
        "every message has its effect after the outage",
        back && scene.books().operations() == all as usize,
        format!("{} of {all}", scene.books().operations()),
    );
    if fails_open {
        check_twice_at_most(
            draft,
            scene.books(),
            AFTER as usize,
            "no effect happens twice, but for those without a claim",
        );
    } else {
        check_once(draft, scene.books());
    }
    draft.check(
        "every message is acknowledged",
        counts.deliveries == u64::from(all),
        format!("{} of {all}", counts.deliveries),
    );
    draft.alert("SemelStoreDown", shown);
    Ok(())
}

const BEFORE: u32 = 100;
const AFTER: u32 = 100;
