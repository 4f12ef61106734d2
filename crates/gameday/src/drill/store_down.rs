//! The store goes away under a worker, and comes back.

use std::path::Path;
use std::time::Duration;

use semel_core::{Error, ErrorKind, Result};
use tokio::time::sleep;

use super::{Scene, check_once, messages};
use crate::Setup;
use crate::metrics::Scrape;
use crate::report::Draft;
use crate::worker::{Worker, cannot};

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let scene = Scene::set(setup, Duration::from_millis(20)).await?;
    let mut worker = scene.worker("first").await?;
    worker.feed(&messages("order-", 0..BEFORE)).await;
    let done = scene
        .applied(BEFORE as usize, Duration::from_secs(30))
        .await;
    draft.check(
        "every message has its effect before the outage",
        done,
        format!("{} of {BEFORE}", scene.books().operations()),
    );
    match (scene.own_store(), &setup.break_store, &setup.mend_store) {
        (None, Some(break_store), Some(mend_store)) => {
            away(&scene, draft, worker, (break_store, mend_store)).await
        }
        (None, ..) => {
            let message = "store-down: a store of your own is broken and mended by commands of your own; name them \
                           with --break and --mend, or leave out --store";
            Err(Error::new(ErrorKind::InvalidInput, message))
        }
        (Some(folder), ..) => gone(&scene, draft, worker, &folder).await,
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
    draft.happened(format!(
        "sent {BEFORE} messages, and moved the folder of the store away"
    ));
    let ended = worker.ended().await?;
    let during = scene.books().effects();
    draft.check(
        "the worker stops by itself, with exit code 3",
        ended.status.code() == Some(3),
        format!("{}: {}", ended.status, ended.last_words),
    );
    let admin = worker.admin;
    let is_silent = worker.ready().await.is_none();
    moved(&aside, folder)?;
    let mut worker = scene.worker("second").await?;
    worker.feed(&messages("order-", 0..BEFORE + AFTER)).await;
    draft.happened("moved it back, started a worker anew, and sent all of them with new ones");
    let counts = worker.end().await?.counts();
    check_once(draft, scene.books());
    draft.check(
        "what was done before is recognised, and what is new goes on",
        counts.replayed == u64::from(BEFORE) && counts.applied == u64::from(AFTER),
        format!(
            "{} of {BEFORE} and {} of {AFTER}",
            counts.replayed, counts.applied
        ),
    );
    draft.check(
        "nothing happens while the store is away",
        during == u64::from(BEFORE),
        format!("{} effects", during - u64::from(BEFORE).min(during)),
    );
    let silence = || format!("http://{admin}/metrics did not answer");
    draft.alert("SemelWorkerDown", is_silent.then(silence));
    Ok(())
}

/// A server goes, and comes back: the worker must wait, or go on without a claim if its pipeline says so.
async fn away(
    scene: &Scene<'_>,
    draft: &mut Draft<'_>,
    mut worker: Worker,
    (break_store, mend_store): (&str, &str),
) -> Result<()> {
    scene.run(break_store).await?;
    worker
        .feed(&messages("order-", BEFORE..BEFORE + AFTER))
        .await;
    draft.happened(format!(
        "sent {BEFORE} messages, broke the store, and sent {AFTER} more"
    ));
    let breaker = |it: &Scrape| it.shown("semel_breaker_open", &[]).is_some();
    let (scrape, is_seen) = scene.seen(&worker, Duration::from_secs(60), breaker).await;
    draft.check(
        "the outage is noticed, and the store left alone",
        is_seen,
        is_seen,
    );
    let shown = scrape.shown("semel_breaker_open", &[]);
    // The grace after which a worker is no longer ready.
    sleep(Duration::from_secs(2)).await;
    let ready = worker.ready().await;
    draft.check(
        "the worker is not ready meanwhile",
        ready == Some(false),
        ready.map_or("it does not answer".to_owned(), |it| format!("ready: {it}")),
    );
    let during = scene.books().effects() - u64::from(BEFORE);
    let fails_open = scene.setup.subject.fails_open;
    if fails_open {
        draft.happened(format!(
            "{during} effects ran without a claim: the pipeline has fail = \"open\""
        ));
        let unprotected = worker.scrape().await.shown("semel_unprotected_total", &[]);
        draft.alert("SemelUnprotected", unprotected);
    } else {
        draft.check(
            "no effect begins without a claim",
            during == 0,
            format!("{during} effects"),
        );
    }
    scene.run(mend_store).await?;
    let all = (BEFORE + AFTER) as usize;
    let back = scene.applied(all, Duration::from_secs(90)).await;
    draft.happened("mended the store");
    let counts = worker.end().await?.counts();
    draft.check(
        "every message has its effect after the outage",
        back,
        format!("{} of {all}", scene.books().operations()),
    );
    check_once(draft, scene.books());
    draft.check(
        "every message is acknowledged",
        counts.deliveries == all as u64,
        format!("{} of {all}", counts.deliveries),
    );
    draft.alert("SemelStoreDown", shown);
    Ok(())
}

const BEFORE: u32 = 100;
const AFTER: u32 = 100;
