//! Everything comes again after it was finished, as after a reset of the consumer's offset.

use std::time::Duration;

use semel_core::Result;

use super::{Scene, check_once, messages};
use crate::Setup;
use crate::report::Draft;

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let scene = Scene::set(setup, Duration::ZERO).await?;
    let mut worker = scene.worker("first").await?;
    worker.feed(&messages("order-", 0..ORDERS)).await;
    let first = worker.end().await?.counts();
    draft.happened(format!("sent {ORDERS} messages to the end"));
    draft.check(
        "every message has its effect the first time",
        first.applied == u64::from(ORDERS),
        format!("{} of {ORDERS} applied", first.applied),
    );
    scene.break_and_mend(draft).await?;
    let mut worker = scene.worker("second").await?;
    // The live ones come among those that come again.
    let all = messages("order-", 0..ORDERS / 2)
        + &messages("live-", 0..LIVE)
        + &messages("order-", ORDERS / 2..ORDERS);
    worker.feed(&all).await;
    draft.happened(format!(
        "started a worker anew, and sent all of them once more, with {LIVE} new ones among them"
    ));
    let expected = u64::from(ORDERS);
    let replays = format!("pipeline=\"{}\"", setup.subject.pipeline);
    let (scrape, _) = scene
        .seen(&worker, Duration::from_secs(30), |it| {
            it.sum("semel_duplicates_total", &[&replays]) >= expected
        })
        .await;
    let second = worker.end().await?.counts();
    check_once(draft, scene.books());
    draft.check(
        "what comes again is recognised",
        second.replayed == expected,
        format!("{} of {ORDERS}", second.replayed),
    );
    draft.check(
        "what is new goes on",
        second.applied == u64::from(LIVE),
        format!("{} of {LIVE} applied", second.applied),
    );
    let shown = scrape.shown("semel_duplicates_total", &[&replays]);
    draft.alert("SemelReplayStorm", shown);
    Ok(())
}

const ORDERS: u32 = 1_000;
const LIVE: u32 = 50;
