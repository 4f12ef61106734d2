//! The spans of an attempt, as an observer gets them once the attempt has ended. Not for how they are gathered, nor for
//! where they are sent.

pub(crate) mod attempt;

use std::time::Duration;

use semel_core::{ClaimId, Duplicate, Operation, TraceContext, TraceId};

use crate::effect::Class;
use crate::summary::Fate;

/// The share of the traces that begin here that are recorded. The trace id alone decides, so that every service with
/// the same share or a larger one decides alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleShare {
    /// The least 56 random bits of a trace id that is recorded.
    threshold: u64,
}

impl SampleShare {
    /// Every trace.
    pub const ALL: Self = Self { threshold: 0 };
    /// No trace.
    pub const NONE: Self = Self {
        threshold: 1 << RANDOM_BITS,
    };

    /// Returns the share of this many out of a million; at most all.
    pub const fn per_million(count: u32) -> Self {
        let count = if count > MILLION { MILLION } else { count };
        let (all, count) = (1_u64 << RANDOM_BITS, count as u64);
        let (whole, rest) = (all / MILLION as u64, all % MILLION as u64);
        let kept = whole * count + (rest * count).div_ceil(MILLION as u64);
        Self {
            threshold: all - kept,
        }
    }

    /// Tells whether a trace is recorded.
    pub const fn has(self, trace_id: TraceId) -> bool {
        trace_id.randomness() >= self.threshold
    }
}

/// A span, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The identity of the span, and of its trace.
    pub context: TraceContext,
    /// The time of its begin, since 1970.
    pub began: Duration,
    /// The time from its begin to its end.
    pub took: Duration,
}

/// The request of HTTP that an effect was, and its answer, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpExchange {
    /// The method; none where the settings of the effect say it.
    pub method: Option<Box<str>>,
    /// The URL without user, password and query; none where the settings say it, or where nothing was sent to a server.
    pub url: Option<Box<str>>,
    /// The host and the port of the server; as the URL.
    pub server: Option<(Box<str>, u16)>,
    /// The status of the answer; none if there was no answer.
    pub status: Option<u16>,
}

/// The kind of the span of a whole attempt, as OpenTelemetry names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessKind {
    /// A message is processed.
    Consumer,
    /// A call of the program's own: no message, and nothing of the messaging conventions.
    Internal,
    /// A request of HTTP is answered, whose client runs the effect itself.
    Server(ServedRequest),
}

/// A request of HTTP that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedRequest {
    /// The method.
    pub method: &'static str,
    /// The path, with the name of a part that differs in braces.
    pub route: &'static str,
    /// The status of the answer.
    pub status: u16,
}

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The message or the call met its fate.
    Fate(Fate),
    /// The attempt goes on elsewhere: a client holds the claim.
    Claimed,
    /// The attempt failed; another follows, or may follow.
    Released,
    /// The claim was lost.
    Fenced,
    /// Another consumer has the message by now, or another caller the operation.
    Gone,
    /// It was given back before the attempt was over: the run ended, another consumer gets the message, or nobody waits
    /// for the call any more.
    GivenBack,
    /// A call ended because the store did not answer: it was not asked for the claim, or it was not told of the end.
    StoreFailed,
}

impl End {
    /// Tells whether an attempt that ends so is recorded for its end, or for that of its effect.
    pub(crate) fn is_hard(self, was_called: bool, verdict: Option<&str>) -> bool {
        self.is_failure()
            || verdict.is_some_and(|verdict| verdict != "applied")
            || (was_called && matches!(self, Self::Gone | Self::GivenBack))
    }

    const fn is_failure(self) -> bool {
        match self {
            Self::Released | Self::Fenced | Self::StoreFailed => true,
            Self::Claimed | Self::Gone | Self::GivenBack => false,
            Self::Fate(fate) => match fate {
                Fate::Applied | Fate::Replayed | Fate::Stale | Fate::Released => false,
                Fate::Conflict
                | Fate::TooOld
                | Fate::Dead
                | Fate::InDoubt
                | Fate::Quarantined
                | Fate::Unprotected => true,
            },
        }
    }
}

/// The spans of one attempt with a message or with an item of a call: from the time that the message was fetched, that
/// the call began or that an earlier attempt was over, to its end. Borrowed: an observer copies what it keeps.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one attempt"
)]
pub struct Spans<'a> {
    /// The span of the whole attempt. Its mark says whether the trace is recorded anyway.
    pub process: Span,
    /// The kind of this span.
    pub kind: ProcessKind,
    /// The class of the effect.
    pub class: Option<Class>,
    /// The span that the message or the call came with.
    pub parent: Option<TraceContext>,
    /// The `tracestate` that came with it.
    pub state: Option<&'a str>,
    /// The wait for the store's answer to the claim. Of a batch, every message has the time of the whole.
    pub claim: Option<Span>,
    /// The effect.
    pub effect: Option<Span>,
    /// The wait for the store's answer to the report.
    pub settle: Option<Span>,
    /// The operation; none of a message without a usable key.
    pub operation: Option<&'a Operation>,
    /// The id of the claim that was last asked for.
    pub claim_id: Option<ClaimId>,
    /// The place where the message was read; empty of a call.
    pub coordinates: &'a str,
    /// Length of the message in bytes; zero of a call.
    pub message_bytes: usize,
    /// The count of requests for the claim.
    pub asked: u32,
    /// The store's answer to the claim, by the name that metrics have for it.
    pub decision: Option<&'static str>,
    /// The way in which it is a duplicate, if it is one.
    pub duplicate: Option<Duplicate>,
    /// The number of the attempt.
    pub attempt: Option<u32>,
    /// The claim took the place of one whose lease ran out.
    pub takeover: bool,
    /// This very claim had been granted before, and its answer was lost.
    pub resumed: bool,
    /// An earlier attempt may have applied the effect.
    pub possible_repeat: bool,
    /// A finished record of the key was found past its window.
    pub formerly_expired: bool,
    /// A claim of it was lost just before.
    pub follows_fence: bool,
    /// The store failed for it, or told of a doubt, however the attempt went on.
    pub had_trouble: bool,
    /// The recorded outcome differs from that of an attempt whose claim was lost.
    pub outcome_differs: bool,
    /// The end of the effect, by the name that metrics have for it.
    pub verdict: Option<&'static str>,
    /// The request of HTTP that the effect was, if it was one.
    pub http: Option<&'a HttpExchange>,
    /// The end of the attempt.
    pub end: End,
    /// The reason of a failure, one line without secrets.
    pub error: Option<&'a str>,
}

impl<'a> Spans<'a> {
    /// Returns the span of an attempt with a message of which nothing else is known.
    pub const fn new(process: Span, coordinates: &'a str, end: End) -> Self {
        Self {
            process,
            kind: ProcessKind::Consumer,
            class: None,
            parent: None,
            state: None,
            claim: None,
            effect: None,
            settle: None,
            operation: None,
            claim_id: None,
            coordinates,
            message_bytes: 0,
            asked: 0,
            decision: None,
            duplicate: None,
            attempt: None,
            takeover: false,
            resumed: false,
            possible_repeat: false,
            formerly_expired: false,
            follows_fence: false,
            had_trouble: false,
            outcome_differs: false,
            verdict: None,
            http: None,
            end,
            error: None,
        }
    }

    /// Counts the spans.
    pub fn count(&self) -> usize {
        let children = [&self.claim, &self.effect, &self.settle];
        1 + children.into_iter().flatten().count()
    }

    /// Tells whether these are recorded: those of a trace that is marked, and those that always are.
    pub fn are_recorded(&self) -> bool {
        self.process.context.flags.is_sampled() || self.are_always_kept()
    }

    /// Tells whether these are recorded whatever the mark of the trace says: a takeover, a fence and
    /// whatever comes of it, such as a differing outcome, an attempt that may repeat the effect, a conflict, a doubt, a
    /// dead end or another failure, and an effect of something that was then given back.
    pub fn are_always_kept(&self) -> bool {
        let is_marked = self.takeover
            || self.resumed
            || self.possible_repeat
            || self.follows_fence
            || self.had_trouble
            || self.outcome_differs;
        let was_called = self.effect.is_some() || self.verdict.is_some();
        is_marked || self.end.is_hard(was_called, self.verdict)
    }

    /// Tells whether the attempt failed: whatever is released, fenced or set aside.
    pub const fn has_failed(&self) -> bool {
        self.end.is_failure()
    }
}

const RANDOM_BITS: u32 = 56;
const MILLION: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use semel_core::{SpanId, TraceFlags};

    use super::*;

    #[test]
    fn each_hard_case_is_kept_for_itself() {
        let process = Span {
            context: TraceContext {
                trace_id: ids().next().expect("one"),
                span_id: SpanId::from_bytes([1; 8]).expect("not zero"),
                flags: TraceFlags::default(),
            },
            began: Duration::ZERO,
            took: Duration::ZERO,
        };
        let plain = |end| Spans {
            verdict: None,
            ..Spans::new(process, "place", end)
        };
        let applied = End::Fate(Fate::Applied);
        let marks: [fn(&mut Spans<'_>); 6] = [
            |it| it.takeover = true,
            |it| it.resumed = true,
            |it| it.possible_repeat = true,
            |it| it.follows_fence = true,
            |it| it.had_trouble = true,
            |it| it.outcome_differs = true,
        ];
        assert!(!plain(applied).are_always_kept());
        for mark in marks {
            let mut spans = plain(applied);
            mark(&mut spans);
            assert!(spans.are_always_kept(), "{spans:?}");
        }
        for end in [End::Gone, End::GivenBack] {
            let mut spans = plain(end);
            assert!(!spans.are_always_kept() && !spans.has_failed());
            spans.verdict = Some("applied");
            assert!(spans.are_always_kept(), "the effect happened");
        }
    }

    fn ids() -> impl Iterator<Item = TraceId> {
        (1..=100_000_u64).filter_map(|count| {
            let mixed = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mut bytes = [7; 16];
            bytes[8..].copy_from_slice(&(mixed ^ (mixed >> 27)).to_be_bytes());
            TraceId::from_bytes(bytes)
        })
    }

    #[test]
    fn a_share_keeps_its_part_of_the_traces() {
        for (per_million, least, most) in [
            (0, 0, 0),
            (10_000, 900, 1_100),
            (500_000, 49_000, 51_000),
            (1_000_000, 100_000, 100_000),
            (u32::MAX, 100_000, 100_000),
        ] {
            let share = SampleShare::per_million(per_million);
            let kept = ids().filter(|id| share.has(*id)).count();
            assert!((least..=most).contains(&kept), "{kept} of {per_million}");
        }
        assert_eq!(SampleShare::per_million(0), SampleShare::NONE);
        assert_eq!(SampleShare::per_million(1_000_000), SampleShare::ALL);
    }

    #[test]
    fn a_larger_share_keeps_what_a_smaller_one_does() {
        let (small, large) = (
            SampleShare::per_million(1_000),
            SampleShare::per_million(20_000),
        );
        assert!(ids().filter(|id| small.has(*id)).all(|id| large.has(id)));
    }
}
