//! Every state has its own explanation. The records come from the decisions that make them in a store.

use std::time::Duration;

use semel_core::decide::{self, Directed, Order, Verdict};
use semel_core::{
    Certainty, Change, ClaimId, ClaimRequest, FencingToken, Fingerprint, Key, Note, Outcome,
    Reason, Recovery, Scope, Settlement, Start, Step, Window,
};

use super::*;

/// A key and its past; each step takes place ten seconds after the one before.
struct Life {
    operation: Operation,
    record: Option<Record>,
    now: Timestamp,
    claims: u8,
    messages: Vec<Parked>,
    audit: Vec<Audited>,
    beside: Option<Beside>,
    arrival: Arrival,
}

impl Life {
    fn new() -> Self {
        let scope = Scope::new("", "payments").expect("a scope");
        Self {
            operation: Operation::new(scope, Key::parse("pay-1").expect("a key")),
            record: None,
            now: Timestamp::from_millis(1_000_000_000_000),
            claims: 0,
            messages: Vec::new(),
            audit: Vec::new(),
            beside: None,
            arrival: Arrival::Delivery,
        }
    }

    /// A key that clients claim.
    fn of_clients() -> Self {
        Self::coming(Arrival::Claim)
    }

    fn coming(arrival: Arrival) -> Self {
        Self {
            arrival,
            ..Self::new()
        }
    }

    fn beside(self, process: Option<u32>) -> Self {
        Self {
            beside: Some(Beside {
                process,
                takes_orders: false,
            }),
            ..self
        }
    }

    fn later(mut self, secs: u64) -> Self {
        self.now = self.now.plus(Duration::from_secs(secs));
        self
    }

    fn claim_id(&self) -> ClaimId {
        ClaimId::from_bytes([self.claims; 16])
    }

    fn claimed(mut self, start: Start) -> Self {
        self.claims += 1;
        let request = ClaimRequest {
            start,
            fingerprint: Some(Fingerprint {
                scheme: 1,
                digest: [7; 16],
            }),
            ..ClaimRequest::new(
                self.operation.scope.clone(),
                self.operation.key.clone(),
                self.claim_id(),
            )
        };
        let token = FencingToken::new(self.claims.into());
        let decision = decide::claim(self.record.as_ref(), None, &request, self.now, token);
        self.change(decision.change)
    }

    fn settled(self, step: Step) -> Self {
        let settlement = Settlement {
            operation: self.operation.clone(),
            claim_id: self.claim_id(),
            step,
        };
        let decision = decide::settle(self.record.as_ref(), None, &settlement, self.now);
        self.change(decision.change)
    }

    fn completed(self) -> Self {
        self.later(10).settled(Step::Complete {
            outcome: Outcome::raw("paid".into(), 100),
            window: Window::DEFAULT,
        })
    }

    fn released(self, certainty: Certainty, after: Duration) -> Self {
        self.later(10).settled(Step::Release {
            error: "no answer within 30s".into(),
            certainty,
            after,
            counted: true,
            limits: semel_core::AttemptLimits::default(),
            window: Window::DEFAULT,
        })
    }

    fn failed(mut self) -> Self {
        self = self.later(10).settled(Step::Fail {
            decisive: false,
            error: "card declined".into(),
            window: Window::DEFAULT,
        });
        self.parked(&Reason::Dead)
    }

    fn parked(mut self, reason: &Reason) -> Self {
        self.messages.push(Parked {
            scope: self.operation.scope.clone(),
            key: Some(self.operation.key.clone()),
            reason: reason.code().into(),
            detail: "".into(),
            transport: None,
            coordinates: "in:4".into(),
            headers: Vec::new(),
            payload: "{}".into(),
            since: self.now,
        });
        self
    }

    fn ordered(mut self, order: &Order) -> Self {
        self = self.later(10);
        let decision = decide::operate(self.record.as_ref(), None, order, self.now);
        assert!(matches!(decision.answer, Directed::Now(_)), "{decision:?}");
        let before = semel_core::audit::standing(self.record.as_ref());
        let action = order.action();
        self = self.change(decision.change);
        self.audit.push(Audited {
            at: self.now,
            note: Note {
                by: "ada@ops".into(),
                reason: "asked the provider".into(),
            },
            action: action.into(),
            scope: Some(self.operation.scope.clone()),
            key: Some(self.operation.key.clone()),
            before,
            after: semel_core::audit::standing(self.record.as_ref()),
        });
        self
    }

    fn change(mut self, change: Change) -> Self {
        match change {
            Change::Put(record) => self.record = Some(record),
            Change::Remove => self.record = None,
            Change::Keep => panic!("nothing changed"),
        }
        self
    }

    fn told(&self) -> Told {
        let facts = Facts {
            operation: &self.operation,
            record: self.record.as_ref(),
            pipeline: None,
            arrival: self.arrival,
            messages: &self.messages,
            message_count: self.messages.len(),
            audit: &self.audit,
            now: self.now,
            beside: self.beside,
        };
        let explanation = Explanation::of(&facts);
        Told(serde_json::to_value(&explanation).expect("JSON"))
    }
}

/// An explanation, parsed from its JSON.
struct Told(serde_json::Value);

impl Told {
    #[track_caller]
    fn says(&self, part: &str, text: &str) -> &Self {
        let told = self.0[part].to_string();
        assert!(told.contains(text), "no {text:?} in {part}: {told}");
        self
    }

    /// Compares the answer that a message gets, whether it is acknowledged, and whether the effect runs.
    #[track_caller]
    fn meets(&self, answer: &str, acknowledged: bool, runs: bool) -> &Self {
        let duplicate = &self.0["duplicate"];
        let met = (
            duplicate["answer"].as_str(),
            duplicate["acknowledged"].as_bool(),
            duplicate["runs"].as_bool(),
        );
        assert_eq!(met, (Some(answer), Some(acknowledged), Some(runs)));
        self
    }

    #[track_caller]
    fn offers(&self, actions: &[&str]) -> &Self {
        let offered: Vec<_> = self.0["can"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|can| can["action"]["action"].as_str().unwrap_or_default())
            .collect();
        for action in actions {
            assert!(offered.contains(action), "no {action:?} in {offered:?}");
        }
        self
    }

    fn events(&self) -> usize {
        self.0["history"].as_array().map_or(0, Vec::len)
    }
}

const PARK: Start = Start::Marked(Recovery::Park);
const RERUN: Start = Start::Marked(Recovery::Rerun);
const KEYED: Start = Start::Marked(Recovery::RerunWithin(Duration::from_secs(3600)));

#[test]
fn a_key_without_a_record_counts_as_new() {
    let told = Life::new().parked(&Reason::TooOld).told();
    told.says("state", "absent")
        .says("text", "older than the window")
        .meets("granted", false, true)
        .offers(&["list_quarantine"]);
}

#[test]
fn a_claimed_key_holds_duplicates_back_until_its_lease_ends() {
    let life = Life::new().claimed(Start::Unmarked).later(10);
    let told = life.told();
    told.says("text", "Worker 010101010101 is at it, attempt 1.")
        .says("text", "Nothing has been sent")
        .says("duplicate", "held back until")
        .says("duplicate", "it takes over")
        .meets("busy", false, false)
        .offers(&["release"]);
    let vanished = life.later(60).told();
    vanished
        .says("text", "has not reported; its lease ended 40 s ago")
        .meets("granted", false, true);
}

#[test]
fn a_started_key_whose_worker_vanished_tells_what_its_class_does() {
    let vanished = |start| Life::new().claimed(start).later(60).told();
    vanished(PARK)
        .says("text", "The effect may have happened.")
        .says("next", "found in doubt, at the latest by the next sweep")
        .says("duplicate", "finds the key in doubt")
        .meets("parked", true, false);
    vanished(RERUN)
        .says("next", "may then have happened twice")
        .says("duplicate", "counted and listed")
        .meets("granted", false, true);
    vanished(KEYED)
        .says("next", "with the same idempotency key until")
        .says("duplicate", "the same idempotency key")
        .meets("granted", false, true);
    let late = Life::new().claimed(KEYED).later(3_700).told();
    late.says("duplicate", "finds the key in doubt")
        .meets("parked", true, false);
}

#[test]
fn what_a_worker_holds_in_memory_alone_is_not_taken_for_gone() {
    for start in [Start::Unmarked, PARK] {
        let told = Life::new()
            .claimed(start)
            .later(60)
            .beside(Some(4711))
            .told();
        told.says(
            "text",
            "process 4711 has the store open and renews leases in memory",
        )
        .says(
            "duplicate",
            "If process 4711 renews the lease still, it is held back instead.",
        )
        .offers(&["release"]);
    }
    let told = Life::new()
        .parked(&Reason::TooOld)
        .beside(Some(4711))
        .told();
    told.says(
        "duplicate",
        "Process 4711 has the store open and may be at it",
    );
}

#[test]
fn a_lease_that_only_the_files_know_ends_with_the_next_opening() {
    let told = Life::new().claimed(PARK).later(10).beside(None).told();
    told.says("text", "whoever opens it next ends the lease")
        .says(
            "duplicate",
            "Whoever opens the store next ends that lease at once.",
        )
        .meets("busy", false, false);
}

#[test]
fn a_running_call_is_told_with_the_end_of_its_lease() {
    let told = Life::new().claimed(KEYED).later(10).told();
    told.says("text", "the effect may have been sent")
        .says("text", "(in 20 s)")
        .meets("busy", false, false);
}

#[test]
fn a_released_key_waits_for_its_backoff_and_then_for_a_delivery() {
    let minute = Duration::from_secs(60);
    let life = Life::new()
        .claimed(KEYED)
        .released(Certainty::NotApplied, minute);
    let told = life.told();
    told.says("text", "The last error was: no answer within 30s.")
        .says("text", "It waits until")
        .says(
            "history",
            "attempt 1 of worker 010101010101 failed after 10 s, surely without effect",
        )
        .says("duplicate", "the wait between two attempts")
        .says("duplicate", "it runs the effect as attempt 2")
        .meets("busy", false, false)
        .offers(&["release", "forget"]);
    life.later(60).told().meets("granted", false, true);
}

#[test]
fn a_completed_key_answers_with_its_outcome_and_says_when_it_is_forgotten() {
    let told = Life::new().claimed(PARK).completed().told();
    told.says("history", "reported it after 10 s")
        .says("duplicate", "the outcome on record (4 bytes)")
        .says("duplicate", "another fingerprint than 00000001:0707")
        .says("next", "It is remembered until")
        .says("next", "(in 7 days), 7d after it was completed")
        .meets("replay", true, false)
        .offers(&["show_outcome", "hold", "forget"]);
    let held = Life::new().claimed(PARK).completed();
    let held = held.ordered(&Order::Hold(true)).told();
    held.says("next", "it is held").offers(&["let_go"]);
}

#[test]
fn a_completed_key_tells_of_repeats_and_of_late_reports() {
    let repeated = Life::new().claimed(RERUN).later(60).claimed(RERUN);
    repeated
        .completed()
        .told()
        .says(
            "text",
            "It may have happened more than once: 1 of its attempts",
        )
        .says(
            "history",
            "vanished: its lease ended without a report after 30 s",
        );
    let late = Life::new()
        .claimed(PARK)
        .released(Certainty::MaybeApplied, Duration::ZERO);
    late.completed()
        .told()
        .says("history", "completed after all");
}

#[test]
fn a_dead_key_says_that_nothing_happened_unless_a_person_gave_it_up() {
    let told = Life::new().claimed(KEYED).failed().told();
    told.says("text", "the effect surely did not happen")
        .says("text", "card declined")
        .says("next", "Its dead letter stays")
        .meets("parked", true, false)
        .offers(&["show_dead_letter", "replay", "drop_dead_letter"]);
    let window = Window::DEFAULT;
    let abandoned = Life::new()
        .claimed(PARK)
        .released(Certainty::MaybeApplied, Duration::ZERO)
        .ordered(&Order::Resolve(Verdict::Abandon { window }));
    abandoned
        .told()
        .says("text", "may or may not have happened")
        .says(
            "history",
            "ada@ops gave the doubt up for dead (in_doubt → dead), because: asked the provider",
        );
}

#[test]
fn a_dead_key_that_was_released_waits_for_its_message() {
    let life = Life::new().claimed(KEYED).failed().ordered(&Order::Requeue);
    life.told()
        .says("text", "Its attempts count anew.")
        .says("history", "gave the dead key another chance")
        .says("next", "no delivery comes")
        .meets("granted", false, true)
        .offers(&["replay"]);
}

#[test]
fn a_doubt_waits_for_a_person_and_says_when_not_applied_is_believed() {
    let life = Life::new()
        .claimed(PARK)
        .released(Certainty::MaybeApplied, Duration::ZERO)
        .parked(&Reason::InDoubt);
    let told = life.told();
    told.says("text", "Nobody knows whether the effect happened")
        .says("text", "not accepted before")
        .says("next", "Nothing, ever.")
        .meets("parked", true, false)
        .offers(&[
            "show_doubt",
            "resolve_applied",
            "resolve_not_applied",
            "abandon",
        ]);
    let quiet = life.later(60).told();
    assert!(!quiet.0["text"].to_string().contains("not accepted"));
    let resolved = Life::new()
        .claimed(PARK)
        .released(Certainty::MaybeApplied, Duration::ZERO)
        .ordered(&Order::Resolve(Verdict::Applied {
            outcome: Outcome::empty(),
            window: Window::DEFAULT,
        }));
    let told = resolved.told();
    told.says("history", "completed by a person's word");
    assert_eq!(told.events(), 4, "began, ended, completed, ordered");
}

#[test]
fn messages_in_quarantine_are_told_with_the_key() {
    let life = Life::new().claimed(PARK).completed();
    let told = life.parked(&Reason::Conflict).told();
    told.says("history", "quarantined: fingerprint-conflict")
        .says("messages", "in:4")
        .offers(&["list_quarantine"]);
}

#[test]
fn history_says_that_its_beginning_is_no_longer_on_record() {
    let mut life = Life::new();
    for _ in 0..20 {
        life = life
            .claimed(Start::Unmarked)
            .released(Certainty::NotApplied, Duration::ZERO);
        // Attempts are limited; a person lets the operation continue.
        if life
            .record
            .as_ref()
            .is_some_and(|record| record.state.kind().as_str() == "dead")
        {
            life = life.ordered(&Order::Requeue);
        }
    }
    let told = life.told();
    told.says("history", "the earliest attempts are no longer on record");
    assert!(told.events() > 2 * Record::MAX_PAST);
}

/// Every state of a key that comes in this way.
fn all_coming(arrival: Arrival) -> Vec<Life> {
    let life = || Life::coming(arrival);
    let minute = Duration::from_secs(60);
    let mut all = vec![life()];
    for start in [Start::Unmarked, PARK, RERUN, KEYED] {
        all.extend([
            life().claimed(start),
            life().claimed(start).later(60),
            life().claimed(start).later(60).beside(Some(4711)),
            life().claimed(start).beside(None),
            life().claimed(start).completed(),
            life()
                .claimed(start)
                .released(Certainty::NotApplied, minute),
            life().claimed(start).later(60).settled(Step::Fail {
                decisive: false,
                error: "card declined".into(),
                window: Window::DEFAULT,
            }),
        ]);
    }
    all.push(
        life()
            .claimed(PARK)
            .released(Certainty::MaybeApplied, Duration::ZERO),
    );
    all
}

/// Checks that none of these words is told of a key that comes in this way, and no action about a message offered.
fn is_never_told(arrival: Arrival, words: &[&str]) {
    for life in all_coming(arrival) {
        let told = life.told();
        for part in ["text", "history", "duplicate", "next", "can"] {
            let mut told = told.0[part].clone();
            if let Some(duplicate) = told.as_object_mut() {
                duplicate.remove("acknowledged");
            }
            let mut texts = told.to_string().to_lowercase();
            for action in told.as_array().into_iter().flatten() {
                // Names of actions and of the pipeline that stands for the operation are no sentences.
                let data = action["action"].to_string().to_lowercase();
                texts = texts.replace(&data, "");
            }
            for word in words {
                assert!(!texts.contains(word), "{word} in {part}: {texts}");
            }
        }
        for action in ["replay", "show_dead_letter", "drop_dead_letter"] {
            let can = told.0["can"].to_string();
            assert!(!can.contains(action), "there is no message: {can}");
        }
    }
}

#[test]
fn of_a_key_that_clients_claim_no_message_and_no_worker_is_told() {
    is_never_told(Arrival::Claim, &OF_MESSAGES);
}

#[test]
fn of_a_key_that_comes_through_a_gateway_no_message_and_no_claim_of_a_client_is_told() {
    let mut words = OF_MESSAGES.to_vec();
    words.extend([
        "a client",
        "the client",
        "next claim",
        "claim of the key",
        "claims the key",
    ]);
    is_never_told(Arrival::Request, &words);
}

#[test]
fn a_key_that_comes_through_a_gateway_says_what_the_next_request_does() {
    let vanished = Life::coming(Arrival::Request).claimed(RERUN).later(60);
    vanished
        .told()
        .says("text", "A gateway began attempt 1 and has not reported")
        .says("next", "A late report of the gateway still counts")
        .says(
            "next",
            "the next request under the key runs the effect again",
        )
        .says("duplicate", "It takes over from the gateway that vanished");
    let doubt = Life::coming(Arrival::Request)
        .claimed(PARK)
        .released(Certainty::MaybeApplied, Duration::ZERO);
    doubt
        .told()
        .says("text", "it went out as `Semel-Operation-Id`")
        .says("duplicate", "It is answered 409: the key is in doubt")
        .says("can", "let the next request run it again")
        .offers(&["show_doubt", "resolve_applied", "abandon"]);
}

#[test]
fn a_key_that_clients_claim_says_what_their_next_claim_does() {
    let vanished = Life::of_clients().claimed(RERUN).later(60).told();
    vanished
        .says("text", "A client began attempt 1 and has not reported")
        .says("next", "A late report of the client still counts")
        .says("next", "the next claim of the key runs the effect again")
        .says("duplicate", "It takes over from the client that vanished");
    let doubt = Life::of_clients()
        .claimed(PARK)
        .released(Certainty::MaybeApplied, Duration::ZERO);
    doubt
        .told()
        .says("duplicate", "It is told that the key is in doubt")
        .says("can", "let the next claim run it again")
        .offers(&["show_doubt", "resolve_applied", "abandon"]);
}

/// Words that are about messages and those who work on them.
const OF_MESSAGES: [&str; 9] = [
    "message",
    "deliver",
    "worker",
    "broker",
    "acknowledge",
    "quarantine",
    "in memory",
    "opens the store",
    "pipeline",
];
