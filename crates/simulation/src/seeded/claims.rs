//! The claim API: clients that claim a key over HTTP without a class, run the effect, and say what became of it. They
//! mark their effects or not, lose answers and ask again, go away, and several may have one key together. In half of the
//! stories the keys are versions of entities, so that a claim may lose its entity while its effect is under way.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::{Extension, Router};
use bytes::Bytes;
use semel_claims::{Settings, router};
use semel_core::Result;
use semel_core::port::source::{Delivery, DeliveryId};
use semel_engine::consumer::Consumer;
use semel_engine::effect::Verdict;
use semel_engine::summary::Summary;
use semel_http::Caller;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use crate::seeded::broker::Feed;
use crate::seeded::dice::Dice;
use crate::seeded::effect::{Request as Called, run};
use crate::seeded::kind::LEASE;
use crate::seeded::life::{Life, Mortal};
use crate::seeded::once::{attend, kept, leaves_after, others};
use crate::seeded::once_store::OnceStore;
use crate::seeded::payload::number_in;
use crate::seeded::plan::{WorkerPlan, secs};
use crate::seeded::store::SimStore;

/// Serves clients until it is asked to stop.
pub(crate) async fn serve(
    life: Arc<Life>,
    plan: &WorkerPlan,
    consumer: Consumer<SimStore, Feed>,
) -> Result<Summary> {
    let settings = Settings {
        lease: LEASE,
        window: consumer.pipeline.window,
        limits: consumer.pipeline.limits,
        surroundings: consumer.surroundings.clone(),
        ..Settings::default()
    };
    let store = OnceStore(consumer.store.clone());
    let service = router(store, settings).layer(Extension(Caller::loopback()));
    attend(&life, plan, consumer, |delivery, clients| {
        let mut dice = life.dice(life.site(&[25, life.next("claim over http")]));
        for _ in 0..=others(&life, &mut dice) {
            let client = Client {
                life: Arc::clone(&life),
                service: service.clone(),
                number: number_in(&delivery.payload),
                delivery: delivery.clone(),
                claim_id: format!("{:016x}{:016x}", dice.roll(u64::MAX), dice.roll(u64::MAX)),
                starts: dice.one_in(2),
                renews: dice.one_in(2),
                manner: dice.roll(3),
                leaves_after: leaves_after(&mut dice),
            };
            let chance = life.dice(life.site(&[26, life.next("client of claims")]));
            clients.spawn(Mortal::new(&life, client.patiently(chance)));
        }
    })
    .await
}

/// One that claims a key.
struct Client {
    life: Arc<Life>,
    service: Router,
    number: usize,
    delivery: Delivery,
    claim_id: String,
    /// It marks its effect before it begins.
    starts: bool,
    renews: bool,
    /// The words in which it says that the effect may have happened.
    manner: u64,
    leaves_after: Option<Duration>,
}

impl Client {
    /// Does it once, unless it goes away before. Returns its delivery if its answer is final.
    async fn patiently(self, chance: Dice) -> Option<DeliveryId> {
        let (life, number) = (Arc::clone(&self.life), self.number);
        let limit = self.leaves_after.unwrap_or(Duration::MAX);
        if let Ok(answer) = timeout(limit, self.once(chance)).await {
            return answer;
        }
        life.world.saw("caller went away");
        life.world.touch(&[number]);
        None
    }

    async fn once(self, mut chance: Dice) -> Option<DeliveryId> {
        let Self { life, number, .. } = &self;
        let world = &life.world;
        let before = self.kept().await;
        let (status, told) = self.asked("/v1/claims", self.claim(), &mut chance).await?;
        world.log(format_args!("{life} is told of k{number}: {status} {told}"));
        if status != 200 {
            world.violation(format!("{life} claims k{number}: {status} {told}"));
            return None;
        }
        match told["decision"].as_str().unwrap_or_default() {
            "granted" => {
                let claim = told["claim"].as_str().unwrap_or_default();
                return self.run(claim, &mut chance).await;
            }
            "replay" => {
                world.saw("replay");
                self.judge(&told["outcome"], before).await;
            }
            "busy" => {
                world.saw("busy to the end");
                sleep(secs(1)).await;
                return None;
            }
            "conflict" => {
                world.tally().told_conflict.insert(*number);
            }
            "too_old" => {
                world.tally().told_too_old.insert(*number);
            }
            "stale" => {}
            "parked" => {
                if told["state"] == "dead" {
                    world.tally().told_dead.insert(*number);
                } else {
                    world.tally().told_in_doubt.insert(*number);
                }
                if !life.was_told_of_the_end(*number) {
                    world.violation(format!("{life} parks k{number} without a record: {told}"));
                }
            }
            other => world.violation(format!("{life} claims k{number}: {other}")),
        }
        Some(self.delivery.id)
    }

    fn claim(&self) -> Value {
        let operation = self.life.world.scope.operation();
        let request: Value = serde_json::from_slice(&self.delivery.payload).unwrap_or_default();
        let mut claim = json!({
            "operation": operation, "key": format!("k{}", self.number), "claim_id": self.claim_id,
            "fingerprint": request, "transport": self.delivery.coordinates.to_string(),
        });
        if self.life.world.is_gated() {
            claim["entity"] = format!("e{}", self.number % 2).into();
            claim["version"] = (self.number + 1).into();
        }
        claim
    }

    /// Runs the effect of a claim, and says what became of it.
    async fn run(&self, claim: &str, chance: &mut Dice) -> Option<DeliveryId> {
        let Self { life, number, .. } = self;
        let world = &life.world;
        let step = |verb: &str| format!("/v1/claims/{claim}/{verb}");
        if self.starts {
            let (status, told) = self.asked(&step("start"), json!({}), chance).await?;
            if status != 200 {
                self.is_lost(status, &told);
                return None;
            }
        }
        let nth = {
            let mut tally = world.tally();
            tally.runs += 1;
            tally.runs
        };
        let called = Called {
            number: *number,
            idempotency_key: claim.to_owned(),
        };
        let ran = run(Arc::clone(life), called, world.now());
        let mut ran = Box::pin(Mortal::new(life, ran));
        let verdict = loop {
            tokio::select! {
                biased;
                verdict = &mut ran => break verdict,
                () = sleep(LEASE / 3), if self.renews => {
                    // A claim that is lost is told of by its next report.
                    let _ = self.asked_once(&step("renew"), &json!({})).await;
                }
            }
        };
        let (verb, report, is_unsure) = match verdict {
            Verdict::Done(_) | Verdict::DoneUnkept { .. } => {
                let outcome = format!("k{number}, run {nth}");
                ("complete", json!({ "outcome": outcome }), false)
            }
            Verdict::NotApplied { error, .. }
            | Verdict::Away { error }
            | Verdict::Broken { error, .. } => (
                "release",
                json!({ "error": error.to_string(), "certainty": "not_applied" }),
                false,
            ),
            Verdict::MaybeApplied { error } => {
                let error = error.to_string();
                let sure = json!({ "error": error, "certainty": "maybe_applied" });
                match self.manner {
                    0 => ("fail", sure, true),
                    1 => ("release", sure, true),
                    // Who says nothing may have applied it.
                    _ => ("release", json!({ "error": error }), true),
                }
            }
            Verdict::Dead { error, decisive } => (
                "fail",
                json!({ "error": error.to_string(), "certainty": "not_applied", "decisive": decisive }),
                false,
            ),
        };
        let (status, told) = self.asked(&step(verb), report, chance).await?;
        world.log(format_args!(
            "{life} says {verb} of k{number}: {status} {told}"
        ));
        if status != 200 {
            self.is_lost(status, &told);
            return None;
        }
        if is_unsure && told["state"] != "in_doubt" {
            world.violation(format!(
                "{life} said that k{number} may have happened, and is told {told}"
            ));
        }
        (verb == "complete").then_some(self.delivery.id)
    }

    /// Checks that a step was refused because its claim is lost.
    fn is_lost(&self, status: u16, told: &Value) {
        let Self { life, number, .. } = self;
        life.heard_of(*number);
        if (status, &told["code"]) != (409, &json!("claim-lost")) {
            let violation = format!("{life} reports on k{number}: {status} {told}");
            life.world.violation(violation);
        }
    }

    /// Asks until there is an answer, with the same words: repeating a request is harmless. Nothing after many times.
    async fn asked(&self, path: &str, body: Value, chance: &mut Dice) -> Option<(u16, Value)> {
        let Self { life, number, .. } = self;
        for _ in 0..TIMES {
            let answer = self.asked_once(path, &body).await;
            let site = life.site(&[27, life.next("answer over http")]);
            let is_lost = chance.one_in(8)
                && life.world.deal(
                    site,
                    "answer over http lost",
                    format_args!("{life}: the answer about k{number} is lost"),
                );
            match answer {
                Some((status, told)) if status < 500 && !is_lost => return Some((status, told)),
                Some(_) | None => {
                    life.world.saw("asked again over http");
                    life.world.touch(&[*number]);
                    sleep(Duration::from_millis(100 + chance.roll(2_000))).await;
                }
            }
        }
        None
    }

    /// Asks once; no answer if it takes long.
    async fn asked_once(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let request = Request::post(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        let request = request.expect("the request is well formed");
        let answer = timeout(LEASE, self.service.clone().oneshot(request)).await;
        let (head, body) = answer.ok()?.ok()?.into_parts();
        let body = to_bytes(body, usize::MAX).await.ok()?;
        Some((head.status.as_u16(), serde_json::from_slice(&body).ok()?))
    }

    /// Checks that a replayed outcome is that on record. The record may have been removed since the store answered.
    async fn judge(&self, outcome: &Value, before: Option<Bytes>) {
        let Self { life, number, .. } = self;
        let text = outcome.to_string();
        let is_it = |kept: Option<Bytes>| kept.is_some_and(|it| it == text.as_bytes());
        let is_there = life.world.record(*number).await.is_some();
        let is_on_record = is_it(self.kept().await) || (!is_there && is_it(before));
        if !is_on_record {
            life.world.violation(format!(
                "{life} is told {text} of k{number}, which is not on record"
            ));
        }
    }

    async fn kept(&self) -> Option<Bytes> {
        self.life.world.record(self.number).await.and_then(kept)
    }
}

/// A client that has asked so often gives up.
const TIMES: usize = 8;
