//! Everything comes again after it was finished, as after a reset of the consumer's offset.

use std::time::Duration;

use semel_core::Result;
use tokio::time::sleep;

use crate::Setup;
use crate::metrics::Samples;
use crate::report::Draft;
use crate::scene::{Scene, check_once};

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let scene = Scene::set(setup, Duration::ZERO).await?;
    let mut worker = scene.worker("first").await?;
    worker.feed(&scene.messages("order-", 0..ORDERS, "")).await;
    let first = worker.end().await?.checked(draft);
    draft.happened(format!("sent {ORDERS} messages to the end"));
    draft.check(
        "every message has its effect the first time",
        first.applied == u64::from(ORDERS),
        format!("{} of {ORDERS} applied", first.applied),
    );
    scene.break_and_mend(draft).await?;
    let mut worker = scene.worker("second").await?;
    // The live ones come among those that come again.
    let all = scene.messages("order-", 0..ORDERS / 2, "")
        + &scene.messages("live-", 0..LIVE, "")
        + &scene.messages("order-", ORDERS / 2..ORDERS, "");
    worker.feed(&all).await;
    draft.happened(format!(
        "started a worker anew, and sent all of them once more, with {LIVE} new ones among them"
    ));
    let patience = Duration::from_secs(30);
    scene.settled(&worker, ORDERS + LIVE, patience).await;
    let storm = |it: &Samples| it.shown("semel_storm", &[]);
    // What comes again at once may be what a restart sends again. A replay goes on.
    let more = scene.messages("order-", 0..MORE, "");
    let (mut rounds, mut shown) = (0, storm(&worker.scrape().await));
    while rounds < ROUNDS && shown.is_none() {
        worker.feed(&more).await;
        rounds += 1;
        sleep(BETWEEN).await;
        shown = storm(&worker.scrape().await);
    }
    let sent = ORDERS + rounds * MORE;
    scene.settled(&worker, sent + LIVE, patience).await;
    draft.happened(format!(
        "sent {MORE} of them {rounds} times more, as a replay goes on"
    ));
    let second = worker.end().await?.checked(draft);
    check_once(draft, scene.books());
    draft.check(
        "what comes again is recognised",
        second.replayed == u64::from(sent),
        format!("{} of {sent}", second.replayed),
    );
    draft.check(
        "what is new goes on",
        second.applied == u64::from(LIVE),
        format!("{} of {LIVE} applied", second.applied),
    );
    draft.alert("SemelReplayStorm", shown);
    Ok(())
}

const ORDERS: u32 = 1_000;
const LIVE: u32 = 50;
/// Messages that come again once more in a round.
const MORE: u32 = 20;
/// A storm is noticed within a minute; this is a little more.
const ROUNDS: u32 = 75;
const BETWEEN: Duration = Duration::from_millis(950);
