//! Messages come that cannot be worked on, among others that can.

use std::fmt::Write;
use std::time::Duration;

use semel_core::Result;

use super::{Scene, check_once, messages};
use crate::Setup;
use crate::provider::{DEFERRED, REFUSED};
use crate::report::Draft;

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let scene = Scene::set(setup, Duration::ZERO).await?;
    let mut worker = scene.worker("worker").await?;
    let mut all = String::new();
    for number in 0..REFUSALS {
        let good = number * GOOD / REFUSALS..(number + 1) * GOOD / REFUSALS;
        all += &messages("order-", good);
        all += &messages(REFUSED, number..number + 1);
    }
    all += &messages(DEFERRED, 0..DEFERRALS);
    all += &"{\"amount\":1}\nno JSON at all\n".repeat(KEYLESS as usize / 2);
    for number in 0..CONFLICTS {
        // Writing to a string cannot fail.
        let _ = writeln!(all, "{{\"id\":\"order-{number}\",\"amount\":-1}}");
    }
    worker.feed(&all).await;
    draft.happened(format!(
        "sent {GOOD} good messages, and among them {REFUSALS} that the target refuses, {DEFERRALS} that it defers once, \
         {KEYLESS} without a key, and {CONFLICTS} that reuse a key"
    ));
    let sent = u64::from(GOOD + REFUSALS + DEFERRALS + KEYLESS + CONFLICTS);
    let (_, settled) = scene
        .seen(&worker, Duration::from_secs(30), |it| {
            it.sum("semel_deliveries_total", &[]) >= sent
        })
        .await;
    draft.check("no message holds up the others", settled, {
        let scrape = worker.scrape().await;
        format!(
            "{} of {sent} settled",
            scrape.sum("semel_deliveries_total", &[])
        )
    });
    let is_ready = worker.ready().await == Some(true);
    draft.check("the worker stays ready", is_ready, is_ready);
    let aside = u64::from(REFUSALS + KEYLESS + CONFLICTS);
    let (scrape, is_told) = scene
        .seen(&worker, Duration::from_secs(20), |it| {
            it.sum("semel_set_aside", &[]) >= aside
        })
        .await;
    draft.check(
        "what waits for a person is counted",
        is_told,
        format!("{} of {aside}", scrape.sum("semel_set_aside", &[])),
    );
    let counts = worker.end().await?.counts();
    check_once(draft, scene.books());
    let good = u64::from(GOOD + DEFERRALS);
    draft.check(
        "every good message has its effect",
        counts.applied == good,
        format!("{} of {good}", counts.applied),
    );
    draft.check(
        "what the target refuses is kept as a dead letter",
        counts.dead == u64::from(REFUSALS),
        format!("{} of {REFUSALS}", counts.dead),
    );
    draft.check(
        "what has no usable key, or reuses one, is kept in quarantine",
        counts.quarantined == u64::from(KEYLESS) && counts.conflicts == u64::from(CONFLICTS),
        format!(
            "{} of {KEYLESS} and {} of {CONFLICTS}",
            counts.quarantined, counts.conflicts
        ),
    );
    let dead = scrape.shown("semel_set_aside", &["why=\"dead\""]);
    draft.alert("SemelDeadLettersGrowing", dead);
    let quarantined = scrape.shown("semel_quarantined_total", &["reason=\"key-missing\""]);
    draft.alert("SemelQuarantineGrowing", quarantined);
    let conflicts = scrape.shown("semel_decisions_total", &["decision=\"conflict\""]);
    draft.alert("SemelConflicts", conflicts);
    Ok(())
}

const GOOD: u32 = 300;
const REFUSALS: u32 = 6;
const DEFERRALS: u32 = 4;
const KEYLESS: u32 = 6;
const CONFLICTS: u32 = 5;
