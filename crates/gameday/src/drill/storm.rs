//! Almost nothing but duplicates comes, for as long as it takes to be noticed.

use std::time::Duration;

use semel_core::Result;
use tokio::time::sleep;

use crate::Setup;
use crate::report::Draft;
use crate::scene::{Scene, check_once};

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let scene = Scene::set(setup, Duration::ZERO).await?;
    let mut worker = scene.worker("worker").await?;
    let again = scene.messages("order-", 0..ORDERS, "");
    worker.feed(&again).await;
    let calm = scene
        .settled(&worker, ORDERS, Duration::from_secs(30))
        .await;
    draft.happened(format!("sent {ORDERS} messages"));
    draft.check(
        "every message has its effect the first time",
        calm && scene.books().operations() == ORDERS as usize,
        format!("{} of {ORDERS}", scene.books().operations()),
    );
    let (mut rounds, mut late, mut shown) = (0, 0, None);
    while rounds < ROUNDS && shown.is_none() {
        worker.feed(&again).await;
        let live = scene.messages("live-", rounds..rounds + 1, "");
        worker.feed(&live).await;
        rounds += 1;
        sleep(BETWEEN).await;
        if !scene.applied(ORDERS + rounds, LATE).await {
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
    let counts = worker.end().await?.checked(draft);
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
