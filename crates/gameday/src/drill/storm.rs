//! Almost nothing but duplicates comes, for as long as it takes to be noticed.

use std::time::Duration;

use semel_core::Result;
use tokio::time::sleep;

use super::{Scene, check_once, messages};
use crate::Setup;
use crate::report::Draft;

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let scene = Scene::set(setup, Duration::ZERO).await?;
    let mut worker = scene.worker("worker").await?;
    worker.feed(&messages("order-", 0..ORDERS)).await;
    let calm = scene
        .applied(ORDERS as usize, Duration::from_secs(30))
        .await;
    draft.happened(format!("sent {ORDERS} messages"));
    draft.check(
        "every message has its effect the first time",
        calm,
        format!("{} of {ORDERS}", scene.books().operations()),
    );
    let again = messages("order-", 0..ORDERS);
    let (mut rounds, mut late, mut shown) = (0, 0, None);
    while rounds < ROUNDS && shown.is_none() {
        worker.feed(&again).await;
        worker.feed(&messages("live-", rounds..rounds + 1)).await;
        rounds += 1;
        sleep(BETWEEN).await;
        let known = ORDERS as usize + rounds as usize;
        if !scene.applied(known, LATE).await {
            late += 1;
        }
        shown = worker.scrape().await.shown("semel_storm", &[]);
    }
    let duplicates = u64::from(rounds) * u64::from(ORDERS);
    let until = if shown.is_some() {
        "until the storm was noticed"
    } else {
        "and nobody noticed"
    };
    draft.happened(format!(
        "sent all of them {rounds} times more, with one new message each time, {until}"
    ));
    let counts = worker.end().await?.counts();
    check_once(draft, scene.books());
    draft.check(
        "what comes again is recognised",
        counts.replayed == duplicates,
        format!("{} of {duplicates}", counts.replayed),
    );
    draft.check(
        "a new message has its effect within five seconds",
        late == 0,
        format!("{late} of {rounds} were later"),
    );
    draft.alert("SemelReplayStorm", shown);
    Ok(())
}

const ORDERS: u32 = 200;
/// A storm is noticed within a minute; this is a little more.
const ROUNDS: u32 = 75;
const BETWEEN: Duration = Duration::from_millis(950);
const LATE: Duration = Duration::from_secs(5);
