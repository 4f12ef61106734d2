//! The list before production: what should hold of a pipeline before money depends on it, with a verdict for each
//! line. Most lines rest on the findings of the report; the rest is about people, alerts and what waits for them.

mod line;
mod lines;
mod routes;

use std::net::SocketAddr;

use semel_core::Error;
use serde::{Deserialize, Serialize};

pub use line::{Line, Standing};

use super::report::Report;
use super::rules::Subject;
use super::set_aside::SetAside;

/// The facts that a program finds out for the list alone.
pub struct Observed<'a> {
    /// The messages and doubts that wait for a person; nothing if nobody counted them.
    pub set_aside: Option<Result<&'a SetAside, &'a Error>>,
    /// The answer at the address of the metrics.
    pub scrape: &'a Scrape,
    /// The room of the store.
    pub room: Room,
}

/// The room that the pipelines of a store need together, and what its disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes on disk when the windows of all pipelines are full, if a rate is known.
    pub needed: Option<u64>,
    /// The number of these pipelines.
    pub pipelines: usize,
    /// The disk; nothing if it was not measured.
    pub disk: Option<Disk>,
}

/// The disk of a store, as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Bytes that the store has already.
    pub held: u64,
    /// Bytes that are free.
    pub free: u64,
}

impl Disk {
    /// Tells whether a store of this size fits, in what it has and what is free.
    pub const fn fits(self, bytes: u64) -> bool {
        bytes <= self.held.saturating_add(self.free)
    }
}

/// The answer at the address of the metrics.
#[derive(Clone, Debug)]
pub enum Scrape {
    /// No address is set.
    Off,
    /// Nobody answers at the address, for this reason.
    Silent(SocketAddr, String),
    /// The text of the answer.
    Answered(SocketAddr, String),
}

/// The list of one pipeline: the documented object; the names and the order of its members are stable.
#[derive(Debug, Serialize, Deserialize)]
pub struct Production {
    /// The name of the pipeline, or `gateway` and the path of a route.
    pub pipeline: String,
    /// The worst of the verdicts.
    pub verdict: Standing,
    /// The number of lines that pass.
    pub passed: usize,
    /// The number of lines that fail.
    pub failed: usize,
    /// The number of lines that nobody but a person can answer.
    pub unknown: usize,
    /// The lines, in the order of the list.
    pub lines: Vec<Line>,
}

impl Production {
    /// Goes through the list.
    pub fn of(subject: &Subject<'_>, report: &Report, observed: &Observed<'_>) -> Self {
        let lines = lines::all(subject, report, observed);
        Self::of_lines(subject.pipeline.pipeline.name.to_string(), lines)
    }

    fn of_lines(pipeline: String, lines: Vec<Line>) -> Self {
        let count = |standing| lines.iter().filter(|it| it.verdict == standing).count();
        Self {
            pipeline,
            verdict: lines
                .iter()
                .map(|it| it.verdict)
                .max()
                .unwrap_or(Standing::Pass),
            passed: count(Standing::Pass),
            failed: count(Standing::Fail),
            unknown: count(Standing::Unknown),
            lines,
        }
    }
}

#[cfg(test)]
mod tests;
