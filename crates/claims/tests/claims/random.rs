//! Thousands of requests by chance: no answer is a failure of the server, no claim outlives its lease, and no effect of
//! a key that parks runs twice.

use std::collections::HashMap;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::site::{Site, claim_of};

/// Chance from a seed.
struct Chance(Rng);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        self.0.choice(all).expect("one at least").clone()
    }

    fn is(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// The keys; the class of a key is that of its name.
const KEYS: [&str; 8] = [
    "none", "keyed", "repeat", "park", "park-2", "none-2", "late", "entity",
];

fn class_of(key: &str) -> Value {
    match key {
        "keyed" => json!({"class": "keyed", "provider_window": "24h"}),
        "late" => json!({"class": "keyed", "provider_window": "30s"}),
        "repeat" => json!({"class": "unkeyed", "on_doubt": "repeat"}),
        "park" => json!({"class": "unkeyed", "on_doubt": "park"}),
        "park-2" => json!({"class": "unkeyed"}),
        "entity" => json!({"entity": "order-9", "version": 3}),
        _ => json!({}),
    }
}

/// Values of all sorts, for members of all sorts.
fn value(chance: &mut Chance) -> Value {
    let all = [
        json!(null),
        json!(0),
        json!(-1),
        json!(1.5),
        json!("0s"),
        json!("10s"),
        json!("1h"),
        json!(""),
        json!("x"),
        json!([]),
        json!({}),
        json!(true),
        json!("2026-11-21T10:00:00Z"),
        json!({"a": [1, 2]}),
        json!("keyed"),
        json!("00112233445566778899aabbccddeeff"),
        json!("\u{0}"),
        json!("not_applied"),
        json!(u64::MAX),
    ];
    chance.one_of(&all)
}

struct Play {
    site: Site,
    chance: Chance,
    claims: Vec<(&'static str, String)>,
    /// Of a key that parks: whether an attempt that was granted may have run.
    ran: HashMap<&'static str, bool>,
    counts: HashMap<String, u64>,
}

impl Play {
    fn claim(&mut self) -> (&'static str, Value) {
        let key = self.chance.one_of(&KEYS);
        let mut body = claim_of(key, class_of(key));
        body["lease"] = json!(self.chance.one_of(&["5s", "10s", "60s"]));
        if self.chance.is(3) {
            body["transport"] = json!(format!("evt-{}", self.chance.below(3)));
        }
        if self.chance.is(10) {
            body["fingerprint"] = json!(self.chance.below(2));
        }
        if self.chance.is(4) {
            body["claim_id"] = json!(format!("{:032x}", self.chance.below(20)));
        }
        (key, body)
    }

    fn step(&mut self) -> (&'static str, String, &'static str, Value) {
        let (key, claim) = match self.claims.len() {
            0 => ("none", "x".to_owned()),
            _ => self.chance.one_of(&self.claims),
        };
        let certainty = self.chance.one_of(&["not_applied", "maybe_applied"]);
        let verb = self.chance.one_of(&[
            "renew", "renew", "start", "complete", "release", "release", "fail",
        ]);
        let body = match verb {
            "renew" => json!({"lease": "10s"}),
            "complete" => json!({"outcome": self.chance.below(9)}),
            "release" => {
                json!({"error": "away", "certainty": certainty, "not_before": self.site.at(self.chance.below(9))})
            }
            "fail" if self.chance.is(4) => json!({"certainty": certainty}),
            // Seldom: a dead key has nothing more to tell.
            "fail" => json!({"certainty": "perhaps"}),
            _ => json!({}),
        };
        (key, claim, verb, body)
    }

    /// Changes a body so that it may not be one any more.
    fn spoiled(&mut self, mut body: Value) -> Value {
        if self.chance.is(6) {
            let name = self.chance.one_of(&[
                "lease", "wait", "class", "birth", "outcome", "key", "error", "x", "window",
            ]);
            body[name] = value(&mut self.chance);
            // No test waits.
            if name == "wait" && body[name] != json!("0s") {
                body[name] = json!(7);
            }
        }
        body
    }

    fn granted(&mut self, key: &'static str, decision: &Value) {
        let claim = decision["claim"].as_str().expect("a claim").to_owned();
        if key.starts_with("park") && decision["resumed"] == false {
            let ran = self.ran.insert(key, true);
            assert_ne!(ran, Some(true), "two effects of {key}: {decision}");
        }
        self.claims.push((key, claim));
        if self.claims.len() > 12 {
            self.claims.remove(0);
        }
    }

    async fn once(&mut self) {
        self.site.advance(self.chance.below(4));
        if self.chance.is(200) {
            // All are forgotten, so that there is more to tell.
            self.site.advance(8 * 86_400);
            self.ran.retain(|key, _| *key != "park" && *key != "park-2");
        }
        if self.chance.is(2) {
            let (key, body) = self.claim();
            let body = self.spoiled(body);
            let answer = self.site.post("/v1/claims", &body).await;
            self.count(&answer.status.to_string());
            assert!(answer.status < 500, "{body}: {answer:?}");
            if answer.status == 200 {
                let decision = answer.json();
                let name = decision["decision"].as_str().expect("a decision");
                self.count(name);
                if name == "granted" && body["key"] == key {
                    self.granted(key, &decision);
                    self.may_forget(key, &body);
                }
            }
            return;
        }
        let (key, claim, verb, body) = self.step();
        let body = self.spoiled(body);
        let answer = self.site.step(&claim, verb, &body).await;
        self.count(&format!("{verb} {}", answer.status));
        assert!(answer.status < 500, "{verb} {body}: {answer:?}");
        if answer.status == 200 && verb == "release" && body["certainty"] == "not_applied" {
            self.ran.insert(key, false);
        }
        if answer.status == 200 && verb == "complete" {
            self.may_forget(key, &body);
        }
    }

    /// Notes that a key is forgotten sooner than the others, and may be granted again then.
    fn may_forget(&mut self, key: &'static str, body: &Value) {
        if body.get("window").is_some() {
            self.ran.insert(key, false);
        }
    }

    /// Lets every lease end, and checks that no key is held any more, and that every key tells of its state.
    async fn cleared(&mut self) {
        self.site.advance(LONGEST_LEASE_SECS);
        for key in KEYS {
            let path = format!("/v1/operations?operation=charge&key={key}");
            let found = self.site.get(&path).await;
            assert!(matches!(found.status, 200 | 404), "{key}: {found:?}");
            let decision = self.site.claim(&claim_of(key, class_of(key))).await;
            assert_ne!(decision["decision"], "busy", "{key}: {decision}");
            self.count("cleared");
            if decision["decision"] == "granted" {
                self.granted(key, &decision);
            }
        }
    }

    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }
}

/// The number of requests: a few on each merge, `SEMEL_REQUESTS` in a campaign.
fn requests() -> u64 {
    let asked = std::env::var("SEMEL_REQUESTS").ok();
    asked.map_or(6_000, |asked| asked.parse().expect("a number of requests"))
}

/// The requests between two looks at what leases have cleared.
const CLEARED_EVERY: u64 = 500;
/// A second more than the longest lease and the longest backoff that anybody asks for here.
const LONGEST_LEASE_SECS: u64 = 3_601;

#[expect(clippy::print_stdout, reason = "the figures of a run")]
#[tokio::test]
async fn no_request_fails_the_server_or_leaves_a_claim_that_its_lease_does_not_clear() {
    let mut play = Play {
        site: Site::new(),
        chance: Chance(Rng::with_seed(20_261_128)),
        claims: Vec::new(),
        ran: HashMap::new(),
        counts: HashMap::new(),
    };
    let requests = requests();
    for count in 1..=requests {
        play.once().await;
        if count % CLEARED_EVERY == 0 || count == requests {
            play.cleared().await;
        }
    }
    println!("{requests} requests: {:?}", play.counts);
    for what in [
        "granted",
        "replay",
        "busy",
        "conflict",
        "stale",
        "parked",
        "400",
        "renew 200",
        "renew 409",
        "start 200",
        "start 409",
        "complete 200",
        "complete 409",
        "release 200",
        "release 409",
        "fail 200",
        "fail 400",
    ] {
        assert!(
            play.counts.contains_key(what),
            "no {what}: {:?}",
            play.counts
        );
    }
}
