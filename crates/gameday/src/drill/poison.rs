//! Messages come that cannot be worked on, among others that can.

use std::fmt::Write;
use std::time::Duration;

use semel_core::Result;

use crate::Setup;
use crate::metrics::Samples;
use crate::provider::{DEFERRED, REFUSED};
use crate::report::Draft;
use crate::scene::{Scene, check_once, yes};

pub(super) async fn play(setup: &Setup, draft: &mut Draft<'_>) -> Result<()> {
    let scene = Scene::set(setup, Duration::ZERO).await?;
    let mut worker = scene.worker("worker").await?;
    let baseline = worker.scrape().await.sum("semel_set_aside", &[]);
    let mut all = String::new();
    for number in 0..REFUSALS {
        let good = number * GOOD / REFUSALS..(number + 1) * GOOD / REFUSALS;
        all += &scene.messages("order-", good, ",\"amount\":1");
        all += &scene.messages(REFUSED, number..number + 1, "");
    }
    all += &scene.messages(DEFERRED, 0..DEFERRALS, "");
    all += &scene.messages("order-", 0..CONFLICTS, ",\"amount\":2");
    for _ in 0..KEYLESS / 2 {
        // Writing to a string cannot fail.
        let _ = writeln!(all, "{{\"amount\":1}}\nno JSON at all");
    }
    worker.feed(&all).await;
    draft.happened(format!(
        "sent {GOOD} good messages, and beside them {REFUSALS} that the target refuses, {DEFERRALS} that it defers once, \
         {KEYLESS} without a key, half of them no JSON at all, and {CONFLICTS} that reuse a key"
    ));
    let sent = GOOD + REFUSALS + DEFERRALS + KEYLESS + CONFLICTS;
    let settled = scene.settled(&worker, sent, Duration::from_secs(30)).await;
    let scrape = worker.scrape().await;
    draft.check(
        "no message holds up the others",
        settled,
        format!(
            "{} of {sent} settled",
            scrape.sum("semel_deliveries_total", &[])
        ),
    );
    let is_ready = scene.becomes(&worker, true, Duration::from_secs(10)).await;
    draft.check("the worker stays ready", is_ready, yes(is_ready));
    // One attempt is too few for a target that defers once.
    let gives_up = setup.subject.attempts == 1;
    let (applied, dead) = if gives_up {
        draft.happened("with one attempt, what the target defers is given up as well");
        (GOOD, REFUSALS + DEFERRALS)
    } else {
        (GOOD + DEFERRALS, REFUSALS)
    };
    let aside = u64::from(dead + KEYLESS + CONFLICTS);
    let told = |it: &Samples| it.sum("semel_set_aside", &[]).saturating_sub(baseline);
    let (scrape, is_told) = scene
        .seen(&worker, Duration::from_secs(30), |it| told(it) >= aside)
        .await;
    draft.check(
        "what waits for a person is counted",
        is_told,
        format!("{} of {aside}", told(&scrape)),
    );
    let counts = worker.end().await?.checked(draft);
    check_once(draft, scene.books());
    draft.check(
        "every good message has its effect",
        counts.applied == u64::from(applied),
        format!("{} of {applied}", counts.applied),
    );
    let refused = scene.books().refused();
    draft.check(
        "what the target refuses is asked for once, and kept as a dead letter",
        counts.dead == u64::from(dead) && refused == u64::from(REFUSALS),
        format!(
            "{} of {dead} kept, {REFUSALS} refused in {refused} calls",
            counts.dead
        ),
    );
    draft.check(
        "what has no usable key, or reuses one, is kept in quarantine",
        counts.quarantined == u64::from(KEYLESS) && counts.conflicts == u64::from(CONFLICTS),
        format!(
            "{} of {KEYLESS} and {} of {CONFLICTS}",
            counts.quarantined, counts.conflicts
        ),
    );
    for (alert, family, label) in [
        ("SemelDeadLettersGrowing", "semel_set_aside", "why=\"dead\""),
        (
            "SemelQuarantineGrowing",
            "semel_quarantined_total",
            "reason=\"key-missing\"",
        ),
        (
            "SemelConflicts",
            "semel_decisions_total",
            "decision=\"conflict\"",
        ),
    ] {
        draft.alert(alert, scrape.shown(family, &[label]));
    }
    Ok(())
}

// As many as the alerts ask for.
const GOOD: u32 = 300;
const REFUSALS: u32 = 12;
const DEFERRALS: u32 = 4;
const KEYLESS: u32 = 30;
const CONFLICTS: u32 = 5;
