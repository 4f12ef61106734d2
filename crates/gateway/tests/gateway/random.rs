//! Requests and answers by chance, compared with what a reader of the book would expect.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use semel_engine::effect::{Class, OnDoubt};

use crate::site::{Seen, Site};

const STATUSES: [u16; 16] = [
    200, 201, 204, 303, 400, 401, 402, 403, 404, 409, 422, 429, 500, 500, 502, 503,
];

/// The end of a key, as far as requests have brought it.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    /// Free; an attempt may have been applied.
    Free { doubtful: bool },
    /// Finished with this status, in this call.
    Done(u16, usize),
    /// In doubt.
    Parked,
}

fn after(class: Class, known: &Known, status: u16, call: usize) -> Known {
    let Known::Free { doubtful } = *known else {
        return known.clone();
    };
    let keyed = matches!(class, Class::Keyed { .. });
    match status {
        401 | 403 | 407 | 408 | 425 | 429 | 503 => Known::Free { doubtful },
        409 if keyed => Known::Free { doubtful },
        // The only decisive code of the route, besides success.
        200..=299 | 402 => Known::Done(status, call),
        300..=499 if doubtful => Known::Free { doubtful },
        300..=499 => Known::Done(status, call),
        _ if class == Class::Unkeyed(OnDoubt::Park) => Known::Parked,
        _ => Known::Free { doubtful: true },
    }
}

fn check(known: &Known, next: &Known, seen: &Seen, status: u16, call: usize) {
    let body = |call: usize| format!("call {call}");
    match known {
        Known::Free { .. } => {
            let found = (seen.status, &seen.body[..], seen.is_replay());
            assert_eq!(found, (status, body(call).as_bytes(), false), "{next:?}");
        }
        Known::Done(first, call) => {
            let found = (seen.status, &seen.body[..], seen.is_replay());
            assert_eq!(found, (*first, body(*call).as_bytes(), true));
        }
        Known::Parked => {
            seen.problem(409, "in-doubt");
        }
    }
}

/// Plays requests with two keys, and answers by chance.
async fn play(class: Class, seed: u64) {
    let next = Arc::new(Mutex::new(0_u16));
    let told = Arc::clone(&next);
    let site = Site::new(
        |route| {
            route.class = class;
            route.decisive = "402".parse().expect("statuses");
        },
        move |call, _| {
            let status = *told.lock().expect("nobody panics");
            async move { Ok(crate::site::answer(status, format!("call {call}"))) }
        },
    );
    let mut chance = Rng::with_seed(seed);
    let mut known = [
        Known::Free { doubtful: false },
        Known::Free { doubtful: false },
    ];
    let mut calls = 0;
    for _ in 0..24 {
        let key = chance.usize(..2);
        let status = *chance.choice(&STATUSES).expect("some");
        *next.lock().expect("nobody panics") = status;
        let runs = matches!(known[key], Known::Free { .. });
        calls += usize::from(runs);
        let then = after(class, &known[key], status, calls);
        let answer = site.post(["pay-1", "pay-2"][key]).await;
        check(&known[key], &then, &answer, status, calls);
        assert_eq!(site.calls(), calls, "seed {seed}");
        known[key] = then;
    }
}

#[tokio::test]
async fn answers_are_those_of_the_book() {
    let provider_window = Duration::from_secs(86_400);
    for class in [
        Class::Unkeyed(OnDoubt::Park),
        Class::Unkeyed(OnDoubt::Repeat),
        Class::Keyed { provider_window },
    ] {
        for seed in 0..100 {
            play(class, seed).await;
        }
    }
}
