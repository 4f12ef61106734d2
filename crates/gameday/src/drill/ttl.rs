//! Everything comes again after the longest time for which it can: the window has to outlast that.

use std::fmt::Write;
use std::time::Duration;

use semel_core::{Result, Timestamp};
use tokio::time::sleep;

use super::{Scene, check_once};
use crate::Setup;
use crate::report::Draft;
use crate::subject::Needed;
use crate::worker::Rules;

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let subject = &setup.subject;
    let (again, window) = subject.shrunk();
    let rules = Rules {
        window,
        is_gated: subject.is_gated,
        fails_open: subject.fails_open,
        attempts: subject.attempts,
    };
    let scene = Scene::with(setup, &rules, Duration::ZERO).await?;
    let needed = match subject.needed {
        Needed::Within(_) => "as long as a message can come again",
        Needed::Endless => "the broker keeps messages without end, so twice the window",
        Needed::Unknown => "nobody knows for how long a message can come again, so half the window",
    };
    let (again_s, window_s) = (again.as_secs(), window.as_secs());
    draft.happened(format!(
        "shrank the window to {window_s} s and the time until everything comes again to {again_s} s ({needed})"
    ));
    let all = born(setup.clock.now());
    let mut worker = scene.worker("worker").await?;
    worker.feed(&all).await;
    let done = scene
        .applied(ORDERS as usize, Duration::from_secs(30))
        .await;
    draft.check(
        "every message has its effect the first time",
        done,
        format!("{} of {ORDERS}", scene.books().operations()),
    );
    // The last result is on record a moment after the effect.
    sleep(again + Duration::from_millis(500)).await;
    worker.feed(&all).await;
    draft.happened(format!(
        "sent {ORDERS} messages, waited, and sent them once more"
    ));
    let expected = u64::from(ORDERS) * 2;
    let (scrape, _) = scene
        .seen(&worker, Duration::from_secs(30), |it| {
            it.sum("semel_deliveries_total", &[]) >= expected
        })
        .await;
    let counts = worker.end().await?.counts();
    check_once(draft, scene.books());
    draft.check(
        "what comes again is recognised",
        counts.replayed == u64::from(ORDERS),
        format!(
            "{} of {ORDERS}; {} set aside as too old",
            counts.replayed, counts.too_old
        ),
    );
    if counts.replayed < u64::from(ORDERS) {
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

/// The messages, with the time of their birth.
fn born(now: Timestamp) -> String {
    (0..ORDERS).fold(String::new(), |mut all, number| {
        // Writing to a string cannot fail.
        let _ = writeln!(all, "{{\"id\":\"order-{number}\",\"born\":\"{now}\"}}");
        all
    })
}

const ORDERS: u32 = 40;
