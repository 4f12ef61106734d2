//! A worker is killed in the middle of its effects, and everything comes again.

use std::collections::BTreeSet;
use std::time::Duration;

use semel_core::Result;

use crate::Setup;
use crate::metrics::get;
use crate::report::Draft;
use crate::scene::{Scene, check_once, check_twice_at_most};
use crate::worker::{IN_FLIGHT, Rules};

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let rules = Rules {
        window: setup.subject.window.max(Duration::from_secs(600)),
        // The second worker waits for it, if the store cannot tell that the first one is gone.
        lease: Duration::from_secs(2),
        is_gated: false,
    };
    let scene = Scene::with(setup, rules, Duration::from_millis(20)).await?;
    let all = scene.messages("order-", 0..ORDERS, "") + &scene.messages("order-", 0..AGAIN, "");
    let mut worker = scene.worker("first").await?;
    let admin = worker.admin;
    worker.feed(&all).await;
    let reached = scene.applied(ORDERS / 3, Duration::from_secs(30)).await;
    worker.kill().await;
    let (before, sent) = (scene.books().effects(), ORDERS + AGAIN);
    draft.happened(format!(
        "sent {sent} messages, {AGAIN} of them duplicates, and killed the worker after {before} effects"
    ));
    draft.check(
        "the worker works until it is killed",
        reached,
        format!("{before} effects"),
    );
    let is_silent = get(admin, "/metrics").await.is_none();
    scene.break_and_mend(draft).await?;
    let mut worker = scene.worker("second").await?;
    draft.happened("started a worker anew, and sent all messages once more");
    worker.feed(&all).await;
    scene.settled(&worker, sent, Duration::from_secs(60)).await;
    let doubts: BTreeSet<_> = scene.doubts().await?.into_iter().collect();
    let aside = "why=\"in_doubt\"";
    let (scrape, _) = scene
        .seen(&worker, Duration::from_secs(15), |it| {
            doubts.is_empty() || it.shown("semel_set_aside", &[aside]).is_some()
        })
        .await;
    let counts = worker.end().await?.checked(draft);
    if setup.subject.repeats {
        check_twice_at_most(
            draft,
            scene.books(),
            IN_FLIGHT as usize,
            "no effect happens twice, but for those that ran when the worker was killed, which on_doubt = \"repeat\" bears",
        );
    } else {
        check_once(draft, scene.books());
    }
    let applied = scene.books().applied();
    let missing: Vec<_> = scene
        .ids("order-", 0..ORDERS)
        .filter(|id| !applied.contains(id))
        .collect();
    let lost = missing.iter().find(|id| !doubts.contains(*id));
    let lost = lost.map_or_else(String::new, |id| format!(", but {id} is lost"));
    draft.check(
        "every message has its effect, or is on record as in doubt",
        lost.is_empty(),
        format!(
            "of {ORDERS} {} with their effect, {} without, {} on record as in doubt{lost}",
            applied.len(),
            missing.len(),
            doubts.len()
        ),
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
    draft.alert_of_silence("SemelWorkerDown", is_silent.then(silence));
    if !doubts.is_empty() {
        draft.alert("SemelInDoubt", scrape.shown("semel_set_aside", &[aside]));
    }
    Ok(())
}

const ORDERS: u32 = 400;
const AGAIN: u32 = 80;
