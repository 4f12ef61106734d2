use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::claim::AttemptLimits;
use semel_core::decide::{Directed, Directive, Order, Verdict};
use semel_core::fingerprint::FingerprintSelector;
use semel_core::key::KeySelector;
use semel_core::partition::Entry;
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::select::Selector;
use semel_core::{
    AnyStore, Backoff, ClaimRequest, Claimant, Clock, FencingToken, Key, Operation, Outcome,
    Record, Scope, State, Store, StoreExt, TraceContext, Window, forward_store,
};
use semel_engine::effect::{Class, OnDoubt};
use semel_engine::event::{Event, Observer, Unobserved};
use semel_engine::publication::GIVEN_KEY;
use semel_engine::summary::Fate;
use semel_engine::surroundings::Surroundings;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_engine::trace::{End, SampleShare, Spans};
use semel_store_memory::MemoryStore;
use tempfile::TempDir;
use tokio::sync::watch;

use super::*;
use crate::effect::exec::Settings;
use crate::settings::StreamedSettings;

#[tokio::test]
async fn a_dead_letter_whose_effect_happens_now_is_dropped() {
    let desk = Desk::new();
    desk.deliver(&["pay-1", "pay-2"], "exit 1").await;
    assert_eq!(desk.parked().await, ["dead pay-1", "dead pay-2"]);
    let report = desk
        .replay(Kind::DeadLetters, "cat >> out; echo >> out")
        .await;
    assert_eq!(report.summary.of(Fate::Applied), 2);
    assert_eq!(report.tally, tally(2, 0, 0));
    assert_eq!(desk.calls(), [r#"{"id":"pay-1"}"#, r#"{"id":"pay-2"}"#]);
    assert!(desk.parked().await.is_empty());
    assert_eq!(desk.state("pay-1").await, Some(StateKind::Completed));
    let audit = desk.audit().await;
    assert_eq!(
        audit,
        [
            "drop pay-1: message kept: dead → message dropped (mended; ran again: completed)",
            "drop pay-2: message kept: dead → message dropped (mended; ran again: completed)",
            "requeue pay-1: dead → released (mended)",
            "requeue pay-2: dead → released (mended)",
        ]
    );
}

/// A store that lets no message go.
#[derive(Clone)]
struct Clinging(Arc<MemoryStore>);

impl Store for Clinging {
    async fn drop_parked(
        &self,
        _: Arc<[ParkedId]>,
        _: Option<&Note>,
    ) -> semel_core::Result<Vec<bool>> {
        let kind = semel_core::ErrorKind::Throttled;
        Err(semel_core::Error::new(kind, "not now"))
    }

    forward_store!(self => self.0; but drop_parked);
}

#[tokio::test]
async fn a_fate_is_told_although_the_message_cannot_be_dropped() {
    let desk = Desk::new();
    desk.deliver(&["pay-1", "pay-2"], "exit 1").await;
    let told: Arc<Mutex<Vec<_>>> = Arc::default();
    let noted = Arc::clone(&told);
    let job = Job {
        on_fate: Some(Arc::new(move |id, fate| {
            noted.lock().expect("no panic").push((id, fate));
        })),
        ..job(Kind::DeadLetters)
    };
    let stores = Stores {
        store: AnyStore::new(Clinging(Arc::clone(&desk.store))),
        ..desk.stores()
    };
    let effect = desk.exec("echo >> out", UNKEYED);
    let report = replay(desk.pipeline(), effect, stores, around(), job).await;
    assert_eq!(report.expect("a replay").tally, tally(0, 2, 0));
    assert_eq!(desk.calls().len(), 2);
    assert_eq!(desk.parked().await, ["dead pay-1", "dead pay-2"]);
    let mut expected = ["pay-1", "pay-2"].map(|key| (message(key, "dead", 0).id(), Fate::Applied));
    expected.sort_unstable_by_key(|it| it.0);
    let mut told = told.lock().expect("no panic").clone();
    told.sort_unstable_by_key(|it| it.0);
    assert_eq!(told, expected);
    // The next run calls nothing.
    let report = desk.replay(Kind::DeadLetters, "echo >> out").await;
    assert_eq!((report.tally, desk.calls().len()), (tally(2, 0, 0), 2));
}

#[tokio::test]
async fn a_dead_letter_that_fails_again_stays_one() {
    let desk = Desk::new();
    desk.deliver(&["pay-1"], "exit 1").await;
    for _ in 0..2 {
        let report = desk.replay(Kind::DeadLetters, "echo >> out; exit 2").await;
        assert_eq!(report.summary.of(Fate::Dead), 1);
        assert_eq!(report.tally, tally(0, 1, 0));
        assert_eq!(desk.parked().await, ["dead pay-1"]);
    }
    assert_eq!(desk.calls().len(), 2);
}

/// Many more than pause a pipeline.
#[tokio::test]
async fn a_replay_of_which_everything_fails_alike_ends_and_tells_it() {
    for (kind, script, class) in [
        (Kind::DeadLetters, "exit 1", UNKEYED),
        (
            Kind::InDoubt,
            "kill -9 $$",
            keyed(Duration::from_secs(3_600)),
        ),
    ] {
        let mut desk = Desk::new();
        desk.attempts = 1;
        let keys: Vec<_> = (0..45).map(|nth| format!("pay-{nth}")).collect();
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        for few in keys.chunks(15) {
            desk.deliver_as(few, script, class).await;
        }
        assert_eq!(desk.parked().await.len(), 45);
        let script = format!("echo >> out; {script}");
        let replayed = desk.replay_as(kind, &script, class);
        let report = tokio::time::timeout(Duration::from_secs(60), replayed).await;
        let report = report.expect("it ends by itself");
        let (dead, in_doubt) = (
            report.summary.of(Fate::Dead),
            report.summary.of(Fate::InDoubt),
        );
        assert_eq!(dead + in_doubt, 45, "{kind:?}");
        assert_eq!(report.tally, tally(0, 45, 0), "{kind:?}");
        assert_eq!(desk.calls().len(), 45, "{kind:?}");
    }
}

#[tokio::test]
async fn a_replay_whose_program_is_not_there_begins_nothing() {
    let desk = Desk::new();
    desk.deliver(&["pay-1"], "exit 1").await;
    let settings = Settings::new(vec!["/nonexistent/charge".to_owned()]);
    let effect = EffectSettings::Exec(settings, UNKEYED);
    let replayed = replay(
        desk.pipeline(),
        effect,
        desk.stores(),
        around(),
        job(Kind::DeadLetters),
    );
    let error = replayed.await.expect_err("there is no such program");
    assert_eq!(error.code(), semel_core::Code::TargetUnavailable);
    assert_eq!(desk.state("pay-1").await, Some(StateKind::Dead));
    assert!(desk.audit().await.is_empty());
}

#[tokio::test]
async fn headers_and_coordinates_are_those_of_the_first_time() {
    let mut desk = Desk::new();
    desk.key = "header:trace";
    desk.deliver(&["pay-1"], "exit 1").await;
    desk.order("t", Order::Forget).await;
    let report = desk.replay(Kind::DeadLetters, "echo >> out").await;
    assert_eq!(report.tally, tally(1, 0, 0));
    let record = desk.record("t").await.expect("a record");
    assert_eq!(record.transport.as_deref(), Some(&b"in:0"[..]));
}

/// Of an attempt: the parent, the span of the whole, the end, and whether the effect was called.
type Attempt = (Option<TraceContext>, TraceContext, End, bool);

/// Gathers the spans of attempts.
#[derive(Default)]
struct Gathered(Mutex<Vec<Attempt>>);

impl Observer for Gathered {
    fn observe(&self, _pipeline: &str, _event: &Event<'_>) {}

    fn wants_spans(&self) -> Option<SampleShare> {
        Some(SampleShare::ALL)
    }

    fn observe_spans(&self, _pipeline: &str, spans: &Spans<'_>) {
        let (parent, process) = (spans.parent, spans.process.context);
        let is_called = spans.effect.is_some();
        let mut gathered = self.0.lock().expect("no panic");
        gathered.push((parent, process, spans.end, is_called));
    }
}

#[tokio::test]
async fn what_runs_again_has_spans_in_the_trace_that_the_message_carried_first() {
    let parent = TraceContext::parse(PARENT.as_bytes());
    for (kind, script, class) in [
        (Kind::DeadLetters, "exit 1", UNKEYED),
        (
            Kind::InDoubt,
            "kill -9 $$",
            keyed(Duration::from_secs(3_600)),
        ),
    ] {
        let mut desk = Desk::new();
        desk.attempts = 1;
        desk.deliver_as(&["pay-1", "pay-2"], script, class).await;
        let gathered = Arc::new(Gathered::default());
        let mut around = around();
        around.surroundings.observer = gathered.clone();
        let effect = desk.exec("echo $TRACEPARENT >> out", class);
        let replayed = replay(desk.pipeline(), effect, desk.stores(), around, job(kind));
        let report = replayed.await.expect("a replay");
        assert_eq!(report.tally, tally(2, 0, 0), "{kind:?}");
        let spans = gathered.0.lock().expect("no panic").clone();
        let [(_, first, ..), (_, second, ..)] = spans[..] else {
            panic!("{spans:?}")
        };
        for (came_with, process, end, is_called) in spans {
            assert_eq!(came_with, parent, "{kind:?}");
            assert_eq!(Some(process.trace_id), parent.map(|it| it.trace_id));
            assert_eq!((end, is_called), (End::Fate(Fate::Applied), true));
        }
        assert_ne!(first.span_id, second.span_id);
        let told = desk.calls();
        assert!(
            told.iter().all(|it| it.starts_with(&PARENT[..36])),
            "{told:?}"
        );
        assert!(told.iter().all(|it| it != PARENT), "{told:?}");
    }
}

#[tokio::test]
async fn what_does_not_stand_as_it_did_is_not_run_unless_it_is_done() {
    let desk = Desk::new();
    let keys = ["pay-1", "pay-2", "pay-3"];
    desk.deliver_as(&keys, "kill -9 $$", PARK).await;
    let applied = Verdict::Applied {
        outcome: Outcome::empty(),
        window: Window::DEFAULT,
    };
    desk.order("pay-3", Order::Resolve(applied)).await;
    for key in ["pay-1", "pay-2"] {
        let (quiet, asked) = (Duration::ZERO, None);
        let verdict = Verdict::NotApplied { quiet, asked };
        desk.order(key, Order::Resolve(verdict)).await;
    }
    let key = |message: &Parked| message.key.as_ref().map(|it| it.as_str().to_owned());
    let job = Job {
        stands: Some(Arc::new(move |message, record| {
            let state = record.map(|it| it.state.kind());
            assert_eq!(state, Some(StateKind::Released), "{message:?}");
            key(message).as_deref() == Some("pay-1")
        })),
        ..job(Kind::DeadLetters)
    };
    let effect = desk.exec("echo \"$SEMEL_KEY\" >> out", PARK);
    let report = replay(desk.pipeline(), effect, desk.stores(), around(), job).await;
    assert_eq!(report.expect("a replay").tally, tally(2, 0, 1));
    assert_eq!(desk.calls(), ["pay-1"]);
    assert_eq!(desk.parked().await, ["in-doubt pay-2"]);
}

#[tokio::test]
async fn what_is_in_doubt_is_no_dead_letter_until_somebody_resolves_it() {
    let desk = Desk::new();
    desk.deliver_as(&["pay-1", "pay-2", "pay-3"], "kill -9 $$", PARK)
        .await;
    assert_eq!(
        desk.parked().await,
        ["in-doubt pay-1", "in-doubt pay-2", "in-doubt pay-3"]
    );
    let script = "echo \"$SEMEL_KEY\" >> out";
    let report = desk.replay(Kind::DeadLetters, script).await;
    assert_eq!(report.tally, Tally::default());
    assert!(desk.calls().is_empty());
    desk.order(
        "pay-1",
        Order::Resolve(Verdict::NotApplied {
            quiet: Duration::ZERO,
            asked: None,
        }),
    )
    .await;
    let applied = Verdict::Applied {
        outcome: Outcome::empty(),
        window: Window::DEFAULT,
    };
    desk.order("pay-2", Order::Resolve(applied)).await;
    let report = desk.replay(Kind::DeadLetters, script).await;
    assert_eq!(report.tally, tally(2, 0, 0));
    assert_eq!(
        desk.calls(),
        ["pay-1"],
        "what happened does not happen again"
    );
    assert_eq!(desk.parked().await, ["in-doubt pay-3"]);
}

#[tokio::test]
async fn a_doubt_whose_end_is_forgotten_is_left_alone() {
    let desk = Desk::new();
    desk.deliver_as(&["pay-1"], "kill -9 $$", PARK).await;
    let applied = Verdict::Applied {
        outcome: Outcome::empty(),
        window: Window::DEFAULT,
    };
    desk.order("pay-1", Order::Resolve(applied)).await;
    desk.order("pay-1", Order::Forget).await;
    let report = desk.replay(Kind::DeadLetters, "echo >> out").await;
    assert_eq!(report.tally, tally(0, 0, 1));
    assert!(desk.calls().is_empty());
    assert_eq!(desk.parked().await, ["in-doubt pay-1"]);
}

#[tokio::test]
async fn a_doubt_inside_its_providers_window_is_called_again_under_the_same_key() {
    let desk = Desk::new();
    let keyed = keyed(Duration::from_secs(3_600));
    let script = "echo \"$SEMEL_IDEMPOTENCY_KEY\" >> out";
    desk.deliver_as(&["pay-1"], &format!("{script}; kill -9 $$"), keyed)
        .await;
    assert_eq!(desk.state("pay-1").await, Some(StateKind::InDoubt));
    let before = desk.record("pay-1").await.expect("a record");
    assert_eq!(
        desk.prospects(Kind::InDoubt).await,
        ["its effect is called"]
    );
    assert!(desk.prospects(Kind::DeadLetters).await.is_empty());
    let report = desk.replay_as(Kind::InDoubt, script, keyed).await;
    assert_eq!(report.tally, tally(1, 0, 0));
    let after = desk.record("pay-1").await.expect("a record");
    assert_eq!(after.state.kind(), StateKind::Completed);
    assert_eq!(
        (after.attempts, after.first_started_at),
        (1, before.first_started_at),
        "counted anew, and begun when it first was"
    );
    let calls = desk.calls();
    assert!(
        calls.len() > 1 && calls.iter().all(|key| *key == calls[0]),
        "{calls:?}"
    );
    assert!(desk.parked().await.is_empty());
    assert_eq!(
        desk.audit().await,
        [
            "drop pay-1: message kept: in-doubt → message dropped (mended; ran again: completed)",
            "retry pay-1: in_doubt → released (mended)",
        ]
    );
}

#[tokio::test]
async fn a_doubt_that_a_retry_leaves_one_is_in_doubt_again_with_its_message() {
    let desk = Desk::new();
    let keyed = keyed(Duration::from_secs(3_600));
    desk.deliver_as(&["pay-1"], "kill -9 $$", keyed).await;
    let report = desk.replay_as(Kind::InDoubt, "kill -9 $$", keyed).await;
    assert_eq!(report.summary.of(Fate::InDoubt), 1);
    assert_eq!(report.tally, tally(0, 1, 0));
    assert_eq!(desk.state("pay-1").await, Some(StateKind::InDoubt));
    assert_eq!(desk.parked().await, ["in-doubt pay-1"]);
}

#[tokio::test]
async fn a_doubt_that_nothing_would_recognise_is_not_called_again() {
    for (class, why) in [
        (PARK, "its pipeline parks what may have happened"),
        (
            keyed(Duration::from_millis(1)),
            "its provider has forgotten",
        ),
    ] {
        let desk = Desk::new();
        desk.deliver_as(&["pay-1"], "sleep 0.01; kill -9 $$", class)
            .await;
        let before = desk.everything().await;
        let told = desk.prospects(Kind::InDoubt).await;
        assert!(told[0].starts_with(why), "{told:?}");
        let report = desk.replay_as(Kind::InDoubt, "echo >> out", class).await;
        assert_eq!(report.tally, tally(0, 0, 1));
        assert!(desk.calls().is_empty());
        assert_eq!(desk.everything().await, before);
    }
}

#[tokio::test]
async fn a_dead_letter_that_ends_in_doubt_is_kept_as_that() {
    let desk = Desk::new();
    desk.deliver(&["pay-1"], "exit 1").await;
    let report = desk.replay_as(Kind::DeadLetters, "kill -9 $$", PARK).await;
    assert_eq!(report.summary.of(Fate::InDoubt), 1);
    assert_eq!(report.tally, tally(1, 0, 0));
    assert_eq!(desk.parked().await, ["in-doubt pay-1"]);
}

#[tokio::test]
async fn a_dead_letter_of_a_forgotten_record_runs_as_if_new() {
    let desk = Desk::new();
    desk.deliver(&["pay-1"], "exit 1").await;
    desk.order("pay-1", Order::Forget).await;
    assert_eq!(
        desk.prospects(Kind::DeadLetters).await,
        ["its effect is called as if new: its record has been forgotten"]
    );
    let report = desk.replay(Kind::DeadLetters, "echo >> out").await;
    assert_eq!(report.tally, tally(1, 0, 0));
}

#[tokio::test]
async fn a_dead_letter_in_which_another_key_is_found_is_not_touched() {
    let mut desk = Desk::new();
    desk.deliver(&["pay-1"], "exit 1").await;
    desk.key = "json:/other";
    let report = desk.replay(Kind::DeadLetters, "echo >> out").await;
    assert_eq!(report.tally, tally(0, 0, 1));
    desk.key = "hash";
    let report = desk.replay(Kind::DeadLetters, "echo >> out").await;
    assert_eq!(report.tally, tally(0, 0, 1));
    assert_eq!(
        desk.state("pay-1").await,
        Some(StateKind::Dead),
        "nor its record"
    );
    assert!(desk.calls().is_empty());
}

#[tokio::test]
async fn a_conflict_that_is_none_runs_once_under_the_key_that_a_person_gives_it() {
    let desk = Desk::new();
    let first = r#"{"id":"pay-1","amount":5}"#;
    let second = r#"{"id":"pay-1","amount":7}"#;
    let script = r#"echo "$SEMEL_KEY" >> out"#;
    desk.deliver_bodies(&[first, second], script, UNKEYED).await;
    assert_eq!(desk.parked().await, ["fingerprint-conflict pay-1"]);
    let under = |key: &str| Job {
        key: Some(Key::new(key).expect("a key")),
        ..job(Kind::Quarantined)
    };
    // Its own key is no other one.
    let report = desk.run(under("pay-1"), script, UNKEYED).await;
    assert_eq!(report.tally, tally(0, 1, 0));
    assert_eq!(desk.parked().await, ["fingerprint-conflict pay-1"]);
    let report = desk.run(under("pay-1b"), script, UNKEYED).await;
    assert_eq!(report.tally, tally(1, 0, 0));
    assert_eq!(desk.calls(), ["pay-1", "pay-1b"]);
    assert_eq!(desk.state("pay-1b").await, Some(StateKind::Completed));
    let mark = "released-as-distinct pay-1";
    assert_eq!(desk.parked().await, [mark]);
    let entry = "drop pay-1: message kept: fingerprint-conflict → message dropped \
                 (mended; ran under the key pay-1b: completed)";
    assert_eq!(desk.audit().await, [entry]);
    // It is delivered again, and released again: the same operation, which is counted once, also if a worker has
    // removed the mark meanwhile.
    let marks = ListQuery {
        reasons: vec![RELEASED_AS_DISTINCT.into()],
        limit: 9,
        ..ListQuery::default()
    };
    let marks = desk.store.list_parked(&marks).await.expect("a page");
    let ids: Vec<_> = marks.items.iter().map(Parked::id).collect();
    let removed = desk.store.drop_parked(ids.into(), None).await;
    assert_eq!(removed.expect("an answer"), [true]);
    desk.deliver_bodies(&[first, second], script, UNKEYED).await;
    let report = desk.run(under("pay-1b"), script, UNKEYED).await;
    assert_eq!(report.tally, tally(1, 0, 0));
    assert_eq!(desk.calls(), ["pay-1", "pay-1b"], "each once");
    assert!(desk.parked().await.is_empty());
}

#[tokio::test]
async fn a_key_that_a_person_gave_is_kept_while_its_message_is_a_dead_letter() {
    let desk = Desk::new();
    let bodies = [r#"{"id":"pay-1"}"#, r#"{"id":"pay-1","n":2}"#];
    desk.deliver_bodies(&bodies, "true", UNKEYED).await;
    let given = Job {
        key: Some(Key::new("pay-1b").expect("a key")),
        ..job(Kind::Quarantined)
    };
    let report = desk.run(given, "exit 1", UNKEYED).await;
    assert_eq!(report.tally, tally(1, 0, 0));
    let mark = "released-as-distinct pay-1";
    assert_eq!(desk.parked().await, ["dead pay-1b", mark]);
    let script = r#"echo "$SEMEL_KEY" >> out"#;
    let report = desk.replay(Kind::DeadLetters, script).await;
    assert_eq!(report.tally, tally(1, 0, 0));
    assert_eq!(desk.calls(), ["pay-1b"]);
    assert_eq!(desk.parked().await, [mark]);
}

#[tokio::test]
async fn a_key_in_a_header_of_the_producer_changes_nothing() {
    let desk = Desk::new();
    let mut delivery = Delivery::new(DeliveryId(0), r#"{"id":"pay-1"}"#, "in:0");
    delivery.headers = vec![(GIVEN_KEY.into(), "pay-2".into())];
    let effect = desk.exec("exit 1", UNKEYED);
    let source = Once(vec![delivery]);
    run(desk.pipeline(), effect, source, desk.stores(), around())
        .await
        .expect("a run");
    assert_eq!(desk.parked().await, ["dead pay-1"]);
    let script = r#"echo "$SEMEL_KEY" >> out"#;
    desk.replay(Kind::DeadLetters, script).await;
    assert_eq!(desk.calls(), ["pay-1"]);
}

#[tokio::test]
async fn what_a_crash_left_half_done_is_finished() {
    let desk = Desk::new();
    desk.deliver(&["pay-1", "pay-2"], "exit 1").await;
    // The crash fell between the requeue and the run, and between the run and the drop.
    desk.order("pay-1", Order::Requeue).await;
    desk.order("pay-2", Order::Requeue).await;
    desk.deliver(&["pay-2"], "echo \"$SEMEL_KEY\" >> out").await;
    assert_eq!(desk.calls(), ["pay-2"]);
    let report = desk
        .replay(Kind::DeadLetters, "echo \"$SEMEL_KEY\" >> out")
        .await;
    assert_eq!(report.tally, tally(2, 0, 0));
    assert_eq!(desk.calls(), ["pay-1", "pay-2"], "each once");
    assert!(desk.parked().await.is_empty());
}

#[tokio::test]
async fn only_what_is_wanted_and_was_there_runs() {
    let desk = Desk::new();
    desk.deliver(&["pay-1", "pay-2"], "exit 1").await;
    let second = Job {
        wanted: Arc::new(|message| {
            message
                .key
                .as_ref()
                .is_some_and(|key| key.as_str() == "pay-2")
        }),
        ..job(Kind::DeadLetters)
    };
    let report = desk.run(second, "echo >> out", UNKEYED).await;
    assert_eq!(report.tally, tally(1, 0, 0));
    let early = Job {
        until: Timestamp::EPOCH,
        ..job(Kind::DeadLetters)
    };
    let report = desk.run(early, "echo >> out", UNKEYED).await;
    assert_eq!(report.tally, Tally::default());
    assert_eq!(desk.parked().await, ["dead pay-1"]);
}

#[tokio::test]
async fn many_pages_are_gone_through_once() {
    let desk = Desk::new();
    let mut messages = Vec::new();
    for number in 0..1_000 {
        messages.push(message(&format!("pay-{number}"), "dead", number));
    }
    let items: Vec<_> = messages
        .into_iter()
        .map(|it| Item::Parked(Box::new(it)))
        .collect();
    let _ = desk.store.import(items.into()).await.expect("an import");
    let out = desk.folder.path().join("appended");
    let report = desk.run_effect(
        job(Kind::DeadLetters),
        EffectSettings::File { path: out.clone() },
    );
    assert_eq!(report.await.tally, tally(1_000, 0, 0));
    let text = std::fs::read_to_string(out).expect("an output");
    assert_eq!(text.lines().count(), 1_000);
    assert!(desk.parked().await.is_empty());
}

#[tokio::test]
async fn nothing_is_looked_for_after_the_last_one_that_is_wanted() {
    let desk = Desk::new();
    let items = (0..300).map(|number| {
        let message = message(&format!("pay-{number}"), "dead", number);
        Item::Parked(Box::new(message))
    });
    let items: Vec<_> = items.collect();
    let _ = desk.store.import(items.into()).await.expect("an import");
    // As many as a page has.
    let first = Job {
        count: Some(100),
        ..job(Kind::DeadLetters)
    };
    let path = desk.folder.path().join("appended");
    let report = desk.run_effect(first, EffectSettings::File { path }).await;
    assert_eq!(report.tally, tally(100, 0, 0));
    assert_eq!(desk.parked().await.len(), 200);
}

/// A streamed pipeline keeps its records in no store: the caller of the assessor says what they
/// are.
#[tokio::test]
async fn a_streamed_dead_letter_goes_to_its_worker_until_it_is_done() {
    let desk = Desk::new();
    desk.deliver(&["pay-1", "pay-2", "pay-3"], "exit 3").await;
    let effect = EffectSettings::Streamed(Box::new(StreamedSettings {
        topic: "clean".into(),
        changelog: "changelog".into(),
        transactional_id: None,
        transaction_timeout: Duration::from_secs(10),
        properties: Vec::new(),
        is_copartitioned: false,
        has_id_header: false,
        transform: None,
    }));
    let (now, token) = (SystemClock::new().now(), FencingToken::new(0));
    // Completed by a request like its own, or by another one of that key.
    let done = |operation: &Operation, request: &ClaimRequest, by: &ClaimRequest| {
        let entry = Entry::of(operation.id(), by);
        Some(entry.record(now, Window::DEFAULT, Some(request), token))
    };
    let foretold = desk.assess(Kind::DeadLetters, &effect, |operations, requests| {
        let requests: Vec<_> = requests.into_iter().map(|it| it.expect("read")).collect();
        let records = vec![
            None,
            done(&operations[1], &requests[1], &requests[1]),
            done(&operations[2], &requests[2], &requests[0]),
        ];
        std::future::ready(Ok(records))
    });
    let [published, dropped] = [Prospect::Published, Prospect::Done].map(|it| it.to_string());
    let refused = "its key belongs to another request by now";
    assert_eq!(foretold.await, [&*published, &*dropped, refused]);
}

#[tokio::test]
async fn a_released_message_goes_where_its_pipeline_sends_it_now() {
    let mut desk = Desk::new();
    desk.key = "json:/other";
    desk.deliver(&["pay-1"], "exit 0").await;
    assert_eq!(desk.parked().await, ["key-missing -"]);
    assert_eq!(
        desk.prospects(Kind::Quarantined).await,
        ["stays in quarantine: key-missing"]
    );
    let report = desk.replay(Kind::Quarantined, "echo >> out").await;
    assert_eq!(report.tally, tally(0, 1, 0));
    assert_eq!(desk.parked().await, ["key-missing -"]);
    desk.key = "json:/id";
    assert_eq!(
        desk.prospects(Kind::Quarantined).await,
        ["its effect is called"]
    );
    let report = desk.replay(Kind::Quarantined, "echo >> out").await;
    assert_eq!(report.tally, tally(1, 0, 0));
    assert_eq!(desk.calls().len(), 1);
    assert!(desk.parked().await.is_empty());
}

#[tokio::test]
async fn a_released_message_that_is_set_aside_again_has_its_new_reason_only() {
    let mut desk = Desk::new();
    desk.key = "json:/other";
    desk.deliver(&["pay-1"], "exit 0").await;
    desk.key = "json:/id";
    desk.deliver_bodies(&[r#"{"id":"pay-1","amount":1}"#], "exit 0", UNKEYED)
        .await;
    assert_eq!(desk.parked().await, ["key-missing -"]);
    let report = desk.replay(Kind::Quarantined, "echo >> out").await;
    assert_eq!(report.summary.of(Fate::Conflict), 1);
    assert_eq!(report.tally, tally(1, 0, 0));
    assert_eq!(desk.parked().await, ["fingerprint-conflict pay-1"]);
    let report = desk.replay(Kind::Quarantined, "echo >> out").await;
    assert_eq!(
        report.tally,
        tally(0, 1, 0),
        "the same reason is the same message"
    );
    assert_eq!(desk.parked().await, ["fingerprint-conflict pay-1"]);
    assert!(desk.calls().is_empty());
}

#[tokio::test]
async fn a_released_message_is_let_through_the_age_gate() {
    let mut desk = Desk::new();
    desk.birth = Some("json:/born");
    desk.deliver_bodies(&[r#"{"id":"pay-1","born":1}"#], "echo >> out", UNKEYED)
        .await;
    assert_eq!(desk.parked().await, ["too-old pay-1"]);
    let report = desk.replay(Kind::Quarantined, "echo >> out").await;
    assert_eq!(report.tally, tally(1, 0, 0));
    assert_eq!(desk.calls().len(), 1);
    assert!(desk.parked().await.is_empty());
}

#[tokio::test]
async fn a_released_message_may_become_a_dead_letter_or_a_duplicate() {
    let mut desk = Desk::new();
    desk.key = "json:/other";
    desk.deliver(&["pay-1"], "exit 0").await;
    desk.key = "json:/id";
    let report = desk.replay(Kind::Quarantined, "exit 3").await;
    assert_eq!(report.tally, tally(1, 0, 0));
    assert_eq!(desk.parked().await, ["dead pay-1"]);
    desk.replay(Kind::DeadLetters, "echo >> out").await;
    desk.key = "json:/other";
    desk.deliver(&["pay-1"], "exit 0").await;
    desk.key = "json:/id";
    assert_eq!(
        desk.prospects(Kind::Quarantined).await,
        ["completed already: nothing is called, the message goes"]
    );
    let report = desk.replay(Kind::Quarantined, "echo >> out").await;
    assert_eq!(report.summary.of(Fate::Replayed), 1);
    assert_eq!(report.tally, tally(1, 0, 0));
    assert_eq!(desk.calls().len(), 1);
}

#[tokio::test]
async fn a_message_of_which_only_the_beginning_was_kept_is_refused() {
    let desk = Desk::new();
    let message = Parked {
        key: None,
        ..message("pay-1", prospect::TOO_LARGE, 0)
    };
    let _ = desk.store.park([message].into()).await.expect("a store");
    let report = desk.replay(Kind::Quarantined, "echo >> out").await;
    assert_eq!(report.tally, tally(0, 0, 1));
    assert!(desk.calls().is_empty());
    assert_eq!(desk.parked().await, ["message-too-large -"]);
    assert!(Unusable::CODES.contains(&prospect::TOO_LARGE));
}

#[tokio::test]
async fn what_is_foretold_changes_nothing() {
    let desk = Desk::new();
    desk.deliver(&["pay-1", "pay-2"], "exit 1").await;
    desk.order("pay-2", Order::Requeue).await;
    let before = desk.everything().await;
    assert_eq!(
        desk.prospects(Kind::DeadLetters).await,
        ["its effect is called", "its effect is called"]
    );
    assert!(desk.prospects(Kind::Quarantined).await.is_empty());
    assert_eq!(desk.everything().await, before);
}

/// Messages without a key, of which no record is looked up, stand among others.
#[tokio::test]
async fn a_message_is_foretold_by_the_record_of_its_own_key() {
    let desk = Desk::new();
    let mut bodies = vec![
        r#"{"id":"pay-1"}"#.to_owned(),
        r#"{"id":"pay-1","v":2}"#.to_owned(),
    ];
    bodies.extend((0..9).map(|number| format!("{{\"no\":{number}}}")));
    let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
    desk.deliver_bodies(&bodies, "exit 0", UNKEYED).await;
    let mut foretold = desk.prospects(Kind::Quarantined).await;
    foretold.sort_unstable();
    foretold.dedup();
    assert_eq!(
        foretold,
        [
            "stays in quarantine: fingerprint-conflict",
            "stays in quarantine: key-missing"
        ]
    );
}

/// A message of one tenant is never run as another's.
#[tokio::test]
async fn a_dead_letter_in_which_another_tenant_is_found_is_not_touched() {
    let mut desk = Desk::new();
    desk.tenant = Some("json:/tenant");
    let body = r#"{"id":"pay-1","tenant":"acme","owner":"other"}"#;
    desk.deliver_bodies(&[body], "exit 1", UNKEYED).await;
    desk.tenant = Some("json:/owner");
    assert_eq!(
        desk.prospects(Kind::DeadLetters).await,
        ["as configured now, the pipeline finds another tenant in it"]
    );
    let report = desk.replay(Kind::DeadLetters, "echo >> out").await;
    assert_eq!(report.tally, tally(0, 0, 1));
    assert!(desk.calls().is_empty());
    desk.tenant = Some("json:/tenant");
    let report = desk.replay(Kind::DeadLetters, "echo >> out").await;
    assert_eq!(report.tally, tally(1, 0, 0));
    assert!(desk.parked().await.is_empty());
}

/// A pipeline, a store and a folder.
struct Desk {
    folder: TempDir,
    store: Arc<MemoryStore>,
    key: &'static str,
    birth: Option<&'static str>,
    tenant: Option<&'static str>,
    /// The number of times that an effect may fail.
    attempts: u32,
}

impl Desk {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            store: Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))),
            key: "json:/id",
            birth: None,
            tenant: None,
            attempts: 10,
        }
    }

    /// Delivers a message for each key to a shell script.
    async fn deliver(&self, keys: &[&str], script: &str) {
        self.deliver_as(keys, script, UNKEYED).await;
    }

    async fn deliver_as(&self, keys: &[&str], script: &str, class: Class) {
        let bodies: Vec<_> = keys
            .iter()
            .map(|key| format!("{{\"id\":\"{key}\"}}"))
            .collect();
        let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
        self.deliver_bodies(&bodies, script, class).await;
    }

    async fn deliver_bodies(&self, bodies: &[&str], script: &str, class: Class) {
        let deliveries = bodies.iter().zip(0..).map(|(body, number)| {
            let body = (*body).to_owned();
            let mut delivery = Delivery::new(DeliveryId(number), body, format!("in:{number}"));
            delivery.headers = vec![
                ("trace".into(), "t".into()),
                ("traceparent".into(), PARENT.into()),
            ];
            delivery
        });
        let source = Once(deliveries.collect());
        let effect = self.exec(script, class);
        run(self.pipeline(), effect, source, self.stores(), around())
            .await
            .expect("a run");
    }

    async fn replay(&self, kind: Kind, script: &str) -> Report {
        self.replay_as(kind, script, UNKEYED).await
    }

    async fn replay_as(&self, kind: Kind, script: &str, class: Class) -> Report {
        self.run(job(kind), script, class).await
    }

    async fn run(&self, job: Job, script: &str, class: Class) -> Report {
        self.run_effect(job, self.exec(script, class)).await
    }

    async fn run_effect(&self, job: Job, effect: EffectSettings) -> Report {
        replay(self.pipeline(), effect, self.stores(), around(), job)
            .await
            .expect("a replay")
    }

    async fn prospects(&self, kind: Kind) -> Vec<String> {
        let effect = self.exec("exit 1", UNKEYED);
        let look_up =
            |operations: Vec<_>, _| async move { self.store.get(operations.into()).await };
        self.assess(kind, &effect, look_up).await
    }

    async fn assess<F>(
        &self,
        kind: Kind,
        effect: &EffectSettings,
        look_up: impl FnOnce(Vec<Operation>, Vec<Option<ClaimRequest>>) -> F,
    ) -> Vec<String>
    where
        F: Future<Output = semel_core::Result<Vec<Option<Record>>>>,
    {
        let pipeline = Assessor::prepared(self.pipeline(), effect);
        let mut assessor = Assessor::new(pipeline, effect, kind);
        let query = ListQuery {
            reasons: kind.reasons(),
            limit: 100,
            ..ListQuery::default()
        };
        let page = self.store.list_parked(&query).await.expect("a page");
        let now = Clock::now(&SystemClock::new());
        let assessed = assessor.assess(look_up, page.items, now).await;
        assessed
            .expect("a store")
            .iter()
            .map(|it| it.prospect.to_string())
            .collect()
    }

    fn exec(&self, script: &str, class: Class) -> EffectSettings {
        let folder = self.folder.path().display();
        let script = format!("cd {folder}; {script}");
        let settings = Settings::new(["/bin/sh", "-c", &script].map(str::to_owned).into());
        EffectSettings::Exec(settings, class)
    }

    fn pipeline(&self) -> Pipeline {
        let selector = |text: &str| text.parse::<Selector>().expect("a selector");
        Pipeline {
            name: "payments".into(),
            scope: scope(),
            tenant: self.tenant.map(selector),
            key: KeySelector::try_from(vec![selector(self.key)]).expect("a key selector"),
            fingerprint: FingerprintSelector::Payload,
            transport: None,
            birth: self.birth.map(selector),
            order: None,
            gate: None,
            window: Window::DEFAULT,
            lease: Duration::from_secs(30),
            limits: AttemptLimits {
                failed: NonZeroU32::new(self.attempts).expect("at least one"),
                ..AttemptLimits::default()
            },
            backoff: Backoff {
                first: Duration::from_millis(1),
                most: Duration::from_millis(1),
            },
            outcome_limit_bytes: Outcome::DEFAULT_LIMIT_BYTES,
            batch: 100,
            concurrency: 1,
            max_message_bytes: 1 << 20,
            pause_after: 20,
            bind: None,
            live_only: false,
        }
    }

    fn stores(&self) -> Stores {
        Stores {
            store: AnyStore::new(Arc::clone(&self.store)),
            checkpoints: Some(AnyCheckpointStore::new(Arc::clone(&self.store))),
            transactions: None,
            transfer: None,
            lent: None,
        }
    }

    async fn order(&self, key: &str, order: Order) {
        let operation = Operation::new(scope(), Key::new(key).expect("a key"));
        let directive = Directive {
            operation,
            order,
            note: None,
        };
        let directed = self.store.operate_one(directive).await;
        assert!(matches!(directed, Ok(Directed::Now(_))), "{directed:?}");
    }

    async fn record(&self, key: &str) -> Option<semel_core::Record> {
        let operation = Operation::new(scope(), Key::new(key).expect("a key"));
        self.store.get_one(operation).await.expect("a store")
    }

    async fn state(&self, key: &str) -> Option<StateKind> {
        self.record(key)
            .await
            .map(|record| State::kind(&record.state))
    }

    /// Reasons and keys of all parked messages, sorted.
    async fn parked(&self) -> Vec<String> {
        let query = ListQuery {
            limit: 10_000,
            ..ListQuery::default()
        };
        let page = self.store.list_parked(&query).await.expect("a page");
        let line = |it: &Parked| {
            let key = it.key.as_ref().map_or("-", Key::as_str);
            format!("{} {key}", it.reason)
        };
        let mut lines: Vec<_> = page.items.iter().map(line).collect();
        lines.sort_unstable();
        lines
    }

    /// The audit trail, sorted.
    async fn audit(&self) -> Vec<String> {
        let query = ListQuery {
            limit: 10_000,
            ..ListQuery::default()
        };
        let page = self.store.list_audit(&query).await.expect("a page");
        let entries = page.items.iter().map(|it| {
            let key = it.key.as_ref().map_or("-", Key::as_str);
            assert_eq!(&*it.note.by, "ann");
            format!(
                "{} {key}: {} → {} ({})",
                it.action, it.before, it.after, it.note.reason
            )
        });
        let mut lines: Vec<_> = entries.collect();
        lines.sort_unstable();
        lines
    }

    async fn everything(&self) -> Vec<Item> {
        self.store
            .export(None, 10_000)
            .await
            .expect("an export")
            .items
    }

    /// Lines that the effect wrote, sorted.
    fn calls(&self) -> Vec<String> {
        let path: PathBuf = self.folder.path().join("out");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }
}

/// A source that ends.
struct Once(Vec<Delivery>);

impl Source for Once {
    async fn fetch(&mut self, _: usize) -> semel_core::Result<Fetched> {
        let deliveries = std::mem::take(&mut self.0);
        Ok(if deliveries.is_empty() {
            Fetched::Ended
        } else {
            Fetched::Deliveries(deliveries)
        })
    }

    async fn acknowledge(&mut self, _: &[Acknowledgement]) -> semel_core::Result<()> {
        Ok(())
    }

    async fn requeue(&mut self, _: &[DeliveryId]) -> semel_core::Result<()> {
        Ok(())
    }

    async fn extend(&mut self, _: &[DeliveryId]) -> semel_core::Result<()> {
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

fn job(kind: Kind) -> Job {
    Job {
        kind,
        wanted: Arc::new(|_| true),
        stands: None,
        count: None,
        until: Timestamp::from_millis(u64::MAX),
        total_bytes: 0,
        note: Note {
            by: "ann".into(),
            reason: "mended".into(),
        },
        key: None,
        on_taken: None,
        on_fate: None,
    }
}

fn tally(dropped: u64, kept: u64, refused: u64) -> Tally {
    Tally {
        dropped,
        kept,
        refused,
    }
}

fn scope() -> Scope {
    Scope::new("", "payments").expect("a scope")
}

/// The trace that every message carries.
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn around() -> Run {
    Run {
        surroundings: Surroundings {
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            claimant: Claimant::random(&SystemEntropy),
            observer: Arc::new(Unobserved),
        },
        stop: watch::channel(false).0,
        patience: Duration::from_secs(30),
        recalled: None,
        on_progress: None,
        dead_letters: None,
    }
}

fn message(key: &str, reason: &str, number: u32) -> Parked {
    Parked {
        scope: scope(),
        key: Some(Key::new(key).expect("a key")),
        reason: reason.into(),
        detail: "exit code 1".into(),
        transport: None,
        coordinates: format!("in:{number}").into(),
        headers: Vec::new(),
        payload: format!("{{\"id\":\"{key}\"}}").into(),
        since: Timestamp::from_millis(5),
    }
}

/// A failure of the script that leaves a doubt is repeated.
const UNKEYED: Class = Class::Unkeyed(OnDoubt::Repeat);
/// A failure of the script that leaves a doubt is parked.
const PARK: Class = Class::Unkeyed(OnDoubt::Park);

/// A target that recognises its keys for this long.
const fn keyed(provider_window: Duration) -> Class {
    Class::Keyed { provider_window }
}
