//! Everything comes again after the longest time for which it can: the window has to outlast that.

use std::time::Duration;

use semel_core::Result;
use semel_core::port::horizon::Horizon;
use tokio::time::sleep;

use crate::Setup;
use crate::report::Draft;
use crate::scene::{Scene, check_once, check_twice_at_most};
use crate::worker::Rules;

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let subject = &setup.subject;
    let (again, window) = subject.shrunk();
    let rules = Rules {
        window,
        lease: window,
        is_gated: subject.is_gated,
    };
    let scene = Scene::with(setup, rules, Duration::ZERO).await?;
    let why = match subject.needed {
        Horizon::Within(_) => {
            "in the proportion of what the pipeline has and what its broker needs"
        }
        Horizon::Endless => "the broker keeps messages without end, and no window outlasts that",
        Horizon::Unknown => {
            "nobody knows for how long a message can come again, so less than the window"
        }
    };
    if subject.needed == Horizon::Unknown {
        draft.unknown(
            "for how long a message can come again: this shows that the window works, and not that it is long enough; see \
             `semel check`",
        );
    }
    let (again_s, window_s) = (again.as_secs(), window.as_secs());
    draft.happened(format!(
        "shrank the window to {window_s} s and the time until everything comes again to {again_s} s: {why}"
    ));
    let mut worker = scene.worker("worker").await?;
    let born = format!(",\"born\":\"{}\"", setup.clock.now());
    let all = scene.messages("order-", 0..ORDERS, &born);
    worker.feed(&all).await;
    let patience = Duration::from_secs(30);
    let done = scene.settled(&worker, ORDERS, patience).await;
    draft.check(
        "every message has its effect the first time",
        done && scene.books().operations() == ORDERS as usize,
        format!("{} of {ORDERS}", scene.books().operations()),
    );
    sleep(again).await;
    worker.feed(&all).await;
    draft.happened(format!(
        "sent {ORDERS} messages, waited, and sent them once more"
    ));
    scene.settled(&worker, ORDERS * 2, patience).await;
    let scrape = worker.scrape().await;
    let counts = worker.end().await?.checked(draft);
    let is_recognised = counts.replayed == u64::from(ORDERS);
    if subject.repeats && !subject.is_gated {
        check_twice_at_most(
            draft,
            scene.books(),
            ORDERS as usize,
            "no effect happens twice, but for those that come too late, which on_doubt = \"repeat\" bears",
        );
    } else {
        check_once(draft, scene.books());
    }
    draft.check(
        "what comes again is recognised",
        is_recognised,
        format!(
            "{} of {ORDERS}; {} set aside as too old",
            counts.replayed, counts.too_old
        ),
    );
    if !is_recognised {
        draft.happened("the window is too short: raise `window`, or shorten what the broker keeps");
        let expired = scrape.shown("semel_expired_again_total", &[]);
        let too_old = scrape.shown("semel_quarantined_total", &["reason=\"too-old\""]);
        match too_old {
            Some(_) => draft.alert("SemelQuarantineGrowing", too_old),
            None => draft.alert("SemelExpiredAgain", expired),
        }
    }
    Ok(())
}

const ORDERS: u32 = 40;
