//! The promises about any input from outside, as plain functions over bytes. T6 of `proof` tests them on inputs
//! that a seeded mutator makes, T11 on those of a fuzzer that watches which code they reach (`proof/fuzz`). Both
//! begin with `proof/corpus`.

mod birth;
mod claims;
mod export;
mod framing;
mod headers;
mod json;
mod jsonl;
mod keys;
mod selectors;
mod store;
mod units;

/// The fate of an input that broke no promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was accepted for what it should be.
    Accepted,
    /// It was refused, with a reason.
    Refused,
}

/// A part of Semel that takes bytes from outside.
pub struct Target {
    /// The name of the part, which is also its folder in the corpus.
    pub name: &'static str,
    /// Takes an input, and returns its fate or the promise that it broke. A panic is a broken promise too.
    pub check: fn(&[u8]) -> Result<Fate, String>,
    /// The words that the mutator inserts, beside the corpus.
    pub words: &'static [&'static [u8]],
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "selector",
        check: selectors::check,
        words: selectors::WORDS,
    },
    Target {
        name: "key",
        check: keys::check,
        words: keys::WORDS,
    },
    Target {
        name: "operation-id",
        check: keys::check_ids,
        words: keys::WORDS,
    },
    Target {
        name: "json",
        check: json::check,
        words: json::WORDS,
    },
    Target {
        name: "birth",
        check: birth::check,
        words: birth::WORDS,
    },
    Target {
        name: "duration",
        check: units::check_duration,
        words: units::WORDS,
    },
    Target {
        name: "size",
        check: units::check_size,
        words: units::WORDS,
    },
    Target {
        name: "headers",
        check: headers::check,
        words: headers::WORDS,
    },
    Target {
        name: "jsonl-answer",
        check: jsonl::check_answer,
        words: jsonl::WORDS,
    },
    Target {
        name: "jsonl-request",
        check: jsonl::check_request,
        words: json::WORDS,
    },
    Target {
        name: "export",
        check: export::check,
        words: export::WORDS,
    },
    Target {
        name: "claims",
        check: claims::check,
        words: claims::WORDS,
    },
    Target {
        name: "claim-steps",
        check: claims::check_steps,
        words: claims::WORDS,
    },
    Target {
        name: "framing",
        check: framing::check,
        words: framing::WORDS,
    },
    Target {
        name: "store-records",
        check: store::check_records,
        words: store::WORDS,
    },
    Target {
        name: "store-parked",
        check: store::check_parked,
        words: store::WORDS,
    },
    Target {
        name: "store-superblock",
        check: store::check_superblock,
        words: store::WORDS,
    },
];

/// Panics if the input breaks a promise of the target: a fuzzer counts that as a find.
///
/// # Panics
///
/// Also if there is no such target.
pub fn must_stand(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.unwrap_or_else(|| panic!("no target {name}"));
    if let Err(why) = (target.check)(input) {
        panic!("{why}");
    }
}
