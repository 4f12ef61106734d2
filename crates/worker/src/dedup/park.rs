//! Lines that are marked as started, printed, and completed: after a crash in between they are in
//! doubt, listed and not printed again.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_core::claim::AttemptLimits;
use semel_core::{
    Admission, Certainty, ClaimRequest, Error, ErrorKind, Outcome, Renewal, Result, Settled,
    Settlement, StateKind, Step, Store,
};
use semel_engine::summary::Fate;

use super::answers::Aside;
use super::batch::{Batch, Lines};
use super::printer::{Printed, Printer, Why};
use super::sink::cannot_print;
use super::{Context, Go};

/// Prints under claims.
pub(super) struct Parking {
    printer: Arc<Mutex<Printer>>,
}

impl Parking {
    pub(super) fn new(printer: Printer) -> Self {
        Self {
            printer: Arc::new(Mutex::new(printer)),
        }
    }

    /// Settles a batch up to the first key that another claim holds, then waits and continues there,
    /// so that lines stay in order.
    pub(super) async fn settle(&self, context: &mut Context, batch: Batch) -> Result<Go> {
        let (lines, mut requests) = (Arc::new(batch.lines), batch.requests);
        let mut from = 0;
        loop {
            let mut round = Round::ask(context, &lines, from, requests).await?;
            let why = self.print(context, &mut round).await?;
            round.count(context).await?;
            from = round.end;
            match (why, round.wait) {
                (Some(Why::Closed | Why::GaveUp), _) => return Ok(Go::Break(())),
                (Some(Why::Failed(error)), _) => return Err(cannot_print("print", error)),
                (None, None) => return Ok(Go::Continue(())),
                (None, Some(wait)) if context.wait(wait).await.is_break() => {
                    return Ok(Go::Break(()));
                }
                (None, Some(_)) => {}
            }
            requests = context.extractor.again(&lines, from..lines.len())?;
        }
    }

    /// Prints the granted lines and settles them. Returns the reason if not all could be printed.
    async fn print(&self, context: &Context, round: &mut Round) -> Result<Option<Why>> {
        let granted = round.granted();
        if granted.is_empty() {
            return Ok(None);
        }
        let places: Vec<_> = granted.iter().map(|at| round.asked[*at].line).collect();
        let lens = places.iter().map(|line| round.lines.bytes(*line).len());
        let ends = lens.scan(0, |end, len| {
            *end += len;
            Some(*end)
        });
        let ends: Vec<usize> = ends.collect();
        let (printer, lines) = (Arc::clone(&self.printer), Arc::clone(&round.lines));
        let printing = tokio::task::spawn_blocking(move || {
            let mut printer = printer.lock().unwrap_or_else(PoisonError::into_inner);
            let mut buffer = printer.buffer();
            for line in places {
                buffer.extend_from_slice(lines.bytes(line));
            }
            printer.print(buffer)
        });
        let result = tokio::select! {
            result = printing => result.map_err(|error| {
                Error::new(ErrorKind::Internal, "printing panicked").with_source(error)
            })?,
            never = renew(context, round, &granted) => match never {},
        };
        let (handed, why) = match result {
            Printed::All => (usize::MAX, None),
            Printed::Partly { handed, why } => (handed, Some(why)),
        };
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let settlements = granted
            .iter()
            .zip(starts.zip(&ends))
            .map(|(at, (start, end))| {
                let step = if why.is_none() && *end <= handed {
                    complete(context)
                } else if start < handed {
                    release(
                        context,
                        Certainty::MaybeApplied,
                        "nobody knows whether it was read",
                    )
                } else {
                    release(context, Certainty::NotApplied, "it was not printed")
                };
                round.settlement(*at, step)
            })
            .collect();
        let settled = context.stores.store.settle(settlements).await?;
        for (at, settled) in granted.into_iter().zip(settled) {
            round.settled(at, settled)?;
        }
        Ok(why)
    }
}

/// The lines from one on up to the first whose key another claim holds.
struct Round {
    lines: Arc<Lines>,
    /// The first line of it, and of the next.
    start: usize,
    end: usize,
    /// The time to wait for the key of line `end`.
    wait: Option<Duration>,
    /// One per key.
    requests: Arc<[ClaimRequest]>,
    asked: Vec<Asked>,
    /// For each line, the index of its key in `asked`.
    keys: Vec<u32>,
    fenced: u64,
    takeovers: u64,
}

/// One key of a round.
struct Asked {
    /// The first line with this key.
    line: usize,
    /// The fate of the key; nothing while its claim is held.
    fate: Option<Fate>,
}

impl Round {
    /// Claims each key once.
    async fn ask(
        context: &Context,
        lines: &Arc<Lines>,
        start: usize,
        requests: Vec<ClaimRequest>,
    ) -> Result<Self> {
        let (first, keys) = first_of_each(&requests);
        let mut requests: Vec<_> = requests.into_iter().map(Some).collect();
        let unique: Arc<[_]> = first.iter().filter_map(|at| requests[*at].take()).collect();
        let admissions = context.stores.store.claim(Arc::clone(&unique)).await?;
        let mut round = Self {
            lines: Arc::clone(lines),
            start,
            end: lines.len(),
            wait: None,
            asked: Vec::with_capacity(unique.len()),
            requests: unique,
            keys,
            fenced: 0,
            takeovers: 0,
        };
        let mut failure = None;
        let mut too_early = Vec::new();
        for (at, admission) in first.into_iter().zip(admissions) {
            let line = start + at;
            let is_over = round.end < lines.len();
            let fate = match admission {
                Admission::Granted(_) if is_over => {
                    too_early.push(round.asked.len());
                    None
                }
                Admission::Granted(claim) => {
                    round.takeovers += u64::from(claim.takeover);
                    None
                }
                Admission::Replay { .. } => Some(Fate::Replayed),
                Admission::Stale { .. } => Some(Fate::Stale),
                Admission::Conflict { .. } => Some(Fate::Conflict),
                Admission::TooOld => Some(Fate::TooOld),
                Admission::Parked {
                    state: StateKind::Dead,
                    ..
                } => Some(Fate::Dead),
                Admission::Parked { .. } => Some(Fate::InDoubt),
                Admission::Busy { until, now } => {
                    round.end = round.end.min(line);
                    round.wait.get_or_insert(until.since(now));
                    Some(Fate::Released)
                }
                Admission::Failed(error) => {
                    round.end = round.end.min(line);
                    failure.get_or_insert(error);
                    Some(Fate::Released)
                }
            };
            round.asked.push(Asked { line, fate });
        }
        if failure.is_some() {
            too_early = round.granted();
        }
        round.give_back(context, &too_early).await?;
        failure.map_or(Ok(round), Err)
    }

    /// The keys whose claims are held.
    fn granted(&self) -> Vec<usize> {
        let held = self.asked.iter().enumerate();
        held.filter(|(_, asked)| asked.fate.is_none())
            .map(|(at, _)| at)
            .collect()
    }

    /// Gives claims back whose lines were not printed.
    async fn give_back(&mut self, context: &Context, held: &[usize]) -> Result<()> {
        if held.is_empty() {
            return Ok(());
        }
        let release = || {
            release(
                context,
                Certainty::NotApplied,
                "an earlier line is not done yet",
            )
        };
        let settlements = held
            .iter()
            .map(|at| self.settlement(*at, release()))
            .collect();
        for (at, settled) in held
            .iter()
            .zip(context.stores.store.settle(settlements).await?)
        {
            self.settled(*at, settled)?;
        }
        Ok(())
    }

    fn settlement(&self, at: usize, step: Step) -> Settlement {
        let request = &self.requests[at];
        Settlement {
            operation: request.operation.clone(),
            claim_id: request.claim_id,
            step,
        }
    }

    fn settled(&mut self, at: usize, settled: Settled) -> Result<()> {
        self.asked[at].fate = Some(match settled {
            Settled::Now(StateKind::Completed) => Fate::Applied,
            Settled::Now(StateKind::InDoubt) => Fate::InDoubt,
            Settled::Now(StateKind::Dead) => Fate::Dead,
            Settled::Now(StateKind::Released | StateKind::Claimed | StateKind::Started) => {
                Fate::Released
            }
            // Another claimant took it for vanished; that claimant's record decides.
            Settled::Fenced { .. } => {
                self.fenced += 1;
                Fate::Replayed
            }
            Settled::Failed(error) => return Err(error),
        });
        Ok(())
    }

    /// Counts each line by the fate of its key, and sets aside those that are in doubt or given up.
    async fn count(&mut self, context: &mut Context) -> Result<()> {
        context.summary.fenced += self.fenced;
        context.summary.takeovers += self.takeovers;
        let mut aside = Vec::new();
        for line in self.start..self.end {
            let asked = &self.asked[self.keys[line - self.start] as usize];
            let is_first = asked.line == line;
            let fate = asked.fate.unwrap_or(Fate::Released);
            context.summary.count(match fate {
                Fate::Applied if !is_first => Fate::Replayed,
                fate => fate,
            });
            if let Some(why) = Aside::of(fate) {
                aside.push((line, why));
            }
        }
        context.set_aside(&self.lines, &aside).await
    }
}

/// Renews the claims while a reader is slow. Never ends.
async fn renew(context: &Context, round: &Round, granted: &[usize]) -> Infallible {
    loop {
        tokio::time::sleep(LEASE / 3).await;
        let renewals = granted
            .iter()
            .map(|at| {
                let request = &round.requests[*at];
                Renewal {
                    operation: request.operation.clone(),
                    claim_id: request.claim_id,
                    lease: LEASE,
                }
            })
            .collect();
        // A lost claim shows when it is settled; so does a store that is gone.
        let _ = context.stores.store.renew(renewals).await;
    }
}

/// The first request of each key, and for each request the index of its key.
fn first_of_each(requests: &[ClaimRequest]) -> (Vec<usize>, Vec<u32>) {
    let mut known: HashMap<&[u8], u32> = HashMap::with_capacity(requests.len());
    let mut first = Vec::with_capacity(requests.len());
    let mut keys = Vec::with_capacity(requests.len());
    for (at, request) in requests.iter().enumerate() {
        let next = u32::try_from(first.len()).unwrap_or(u32::MAX);
        let key = *known
            .entry(request.operation.key.as_bytes())
            .or_insert(next);
        if key == next {
            first.push(at);
        }
        keys.push(key);
    }
    (first, keys)
}

fn complete(context: &Context) -> Step {
    Step::Complete {
        outcome: Outcome::empty(),
        window: context.dedup.window,
    }
}

fn release(context: &Context, certainty: Certainty, error: &str) -> Step {
    Step::Release {
        error: error.into(),
        certainty,
        after: Duration::ZERO,
        counted: certainty == Certainty::MaybeApplied,
        limits: AttemptLimits::default(),
        window: context.dedup.window,
    }
}

/// The time by which a claim outlives its worker if the store cannot tell that the worker is gone.
pub(super) const LEASE: Duration = Duration::from_secs(10);
