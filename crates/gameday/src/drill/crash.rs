//! A worker is killed in the middle of its effects, and everything comes again.

use std::time::Duration;

use semel_core::Result;

use super::{Scene, check_once, messages};
use crate::Setup;
use crate::metrics::get;
use crate::report::Draft;

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let scene = Scene::set(setup, Duration::from_millis(20)).await?;
    let all = messages("order-", 0..ORDERS) + &messages("order-", 0..AGAIN);
    let mut worker = scene.worker("first").await?;
    let admin = worker.admin;
    worker.feed(&all).await;
    let third = ORDERS as usize / 3;
    let reached = scene.applied(third, Duration::from_secs(30)).await;
    worker.kill().await;
    let (before, sent) = (scene.books().effects(), ORDERS + AGAIN);
    draft.happened(format!(
        "sent {sent} messages, {AGAIN} of them duplicates, and killed the worker after {before} effects"
    ));
    draft.check("the worker works until it is killed", reached, before);
    let is_silent = get(admin, "/metrics").await.is_none();
    scene.break_and_mend(draft).await?;
    let mut worker = scene.worker("second").await?;
    draft.happened("started a worker anew, and sent all messages once more");
    worker.feed(&all).await;
    let ended = worker.end().await?;
    let counts = ended.counts();
    check_once(draft, scene.books());
    let missing = ORDERS as usize - scene.books().operations();
    draft.check(
        "every message has its effect, or is on record as in doubt",
        missing as u64 <= counts.in_doubt,
        format!("{missing} without an effect, {} in doubt", counts.in_doubt),
    );
    let settled = counts.applied + counts.replayed + counts.in_doubt;
    draft.check(
        "every message is acknowledged with a fate of its own",
        counts.deliveries == u64::from(sent) && settled == counts.deliveries,
        format!(
            "{} of {sent}: {} applied, {} replayed, {} in doubt",
            counts.deliveries, counts.applied, counts.replayed, counts.in_doubt
        ),
    );
    let silence = || format!("http://{admin}/metrics did not answer");
    draft.alert("SemelWorkerDown", is_silent.then(silence));
    if counts.in_doubt > 0 {
        let shown = format!(
            "semel_set_aside{{pipeline=\"{}\",why=\"in_doubt\"}} {}",
            setup.subject.pipeline, counts.in_doubt
        );
        draft.alert("SemelInDoubt", Some(shown));
    }
    Ok(())
}

const ORDERS: u32 = 400;
const AGAIN: u32 = 80;
