//! The list before production: what should hold of a pipeline before money depends on it, with a verdict for each
//! line. Most lines rest on the findings of the report; the rest is about people, alerts and what waits for them.

mod line;
mod lines;

use std::net::SocketAddr;

use semel_core::Error;
use serde::Serialize;

pub use line::{Line, Standing};

use super::report::Report;
use super::rules::Subject;
use super::set_aside::SetAside;

/// The facts that a program finds out for the list alone.
pub struct Observed<'a> {
    /// The messages and doubts that wait for a person; nothing if the store is not there, cannot be looked at, or forgets.
    pub set_aside: Option<Result<&'a SetAside, &'a Error>>,
    /// The answer at the address of the metrics.
    pub scrape: &'a Scrape,
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
#[derive(Debug, Serialize)]
pub struct Production<'a> {
    /// The name of the pipeline.
    pub pipeline: &'a str,
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

impl<'a> Production<'a> {
    /// Goes through the list.
    pub fn of(subject: &Subject<'a>, report: &Report<'_>, observed: &Observed<'_>) -> Self {
        let lines = lines::all(subject, report, observed);
        let count = |standing| lines.iter().filter(|it| it.verdict == standing).count();
        Self {
            pipeline: &subject.pipeline.pipeline.name,
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
