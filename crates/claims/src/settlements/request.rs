//! A step as it was reported.

use std::time::Duration;

use semel_core::json::Node;
use semel_core::{Certainty, Error, Recovery, Renewal, Settlement, Start, Step, Timestamp};
use semel_engine::attempt::Reports;
use semel_http::member::{Fault, Member, members, required};
use semel_http::{Caller, Problem};

use crate::handle::Handle;
use crate::outcome;
use crate::service::{LONGEST_LEASE, LONGEST_WINDOW};
use crate::settings::Settings;
use crate::trace::ItemTrace;

/// A step that a client reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Renew,
    Start,
    Complete,
    Release,
    Fail,
}

impl Verb {
    /// Every verb by its name.
    pub(crate) const ALL: [(&str, Self); 5] = [
        ("renew", Self::Renew),
        ("start", Self::Start),
        ("complete", Self::Complete),
        ("release", Self::Release),
        ("fail", Self::Fail),
    ];

    /// Returns the path of a report, with the claim in it left open.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Renew => "/v1/claims/{claim}/renew",
            Self::Start => "/v1/claims/{claim}/start",
            Self::Complete => "/v1/claims/{claim}/complete",
            Self::Release => "/v1/claims/{claim}/release",
            Self::Fail => "/v1/claims/{claim}/fail",
        }
    }

    /// Returns the members of its report.
    pub(crate) const fn members(self) -> &'static [&'static str] {
        match self {
            Self::Renew => &["lease"],
            Self::Start => &[],
            Self::Complete => &["outcome", "outcome_base64", "content_type", "window"],
            Self::Release => &["error", "not_before", "certainty"],
            Self::Fail => &["error", "certainty", "decisive"],
        }
    }
}

/// The certainties by their names.
pub(crate) const CERTAINTIES: [(&str, Certainty); 2] = [
    ("not_applied", Certainty::NotApplied),
    ("maybe_applied", Certainty::MaybeApplied),
];

/// The members of an item of a batch, whatever its step.
const MEMBERS: [&str; 11] = [
    "claim",
    "step",
    "lease",
    "outcome",
    "outcome_base64",
    "content_type",
    "window",
    "error",
    "not_before",
    "certainty",
    "decisive",
];

/// A step as it was reported.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) handle: Handle,
    pub(crate) report: Report,
    /// Its trace, if anybody wants spans.
    pub(crate) trace: Option<ItemTrace>,
}

impl Asked {
    pub(super) fn operation_id(&self) -> String {
        self.handle.operation.id().to_string()
    }

    /// Returns whether it reports that the effect happened.
    pub(super) fn is_completion(&self) -> bool {
        match &self.report {
            Report::Settle { step, .. } => matches!(step.step, Step::Complete { .. }),
            Report::Renew(_) => false,
        }
    }

    /// Reports that the store did not take the step.
    pub(super) fn failed(&self, error: &Error) -> Problem {
        Problem::from(error).with("operation_id", self.operation_id())
    }
}

#[derive(Debug)]
pub(crate) enum Report {
    Renew(Renewal),
    Settle {
        /// The start of the effect, where the report itself says that there may have been one and nobody marked it.
        start: Option<Recovery>,
        step: Settlement,
    },
}

/// The members of a report that were given.
struct Given<'n> {
    lease: Option<Member<'n>>,
    outcome: [Option<Member<'n>>; 3],
    window: Option<Member<'n>>,
    error: Option<Member<'n>>,
    not_before: Option<Member<'n>>,
    certainty: Option<Member<'n>>,
    decisive: Option<Member<'n>>,
}

/// Reads the item of a batch, or, with its claim and its verb, the body of one step.
pub(super) fn read(
    node: Node<'_>,
    base: &str,
    named: Option<(Handle, Verb)>,
    caller: &Caller,
    settings: &Settings,
) -> Result<Asked, Problem> {
    let all = members(node, base, MEMBERS)?;
    let given_names = MEMBERS.into_iter().zip(all);
    let given_names = given_names.filter_map(|(name, member)| Some((name, member?)));
    let [
        claim,
        step,
        lease,
        json,
        base64,
        content_type,
        window,
        error,
        not_before,
        certainty,
        decisive,
    ] = all;
    let (handle, verb, own) = if let Some((handle, verb)) = named {
        (handle, verb, &[][..])
    } else {
        let claim = required(claim, base, "claim")?;
        let handle = Handle::decode(&claim.text()?).ok_or_else(|| claim.fault(NO_CLAIM))?;
        let verb = required(step, base, "step")?.one_of(&Verb::ALL)?;
        (handle, verb, &["claim", "step"][..])
    };
    for (name, member) in given_names {
        if !own.contains(&name) && !verb.members().contains(&name) {
            return Err(member.fault("this step has no member of this name").into());
        }
    }
    allow(caller, &handle)?;
    let given = Given {
        lease,
        outcome: [json, base64, content_type],
        window,
        error,
        not_before,
        certainty,
        decisive,
    };
    let report = report(&handle, verb, &given, settings)?;
    Ok(Asked {
        handle,
        report,
        trace: None,
    })
}

fn report(
    handle: &Handle,
    verb: Verb,
    given: &Given<'_>,
    settings: &Settings,
) -> Result<Report, Fault> {
    let window = given
        .window
        .map(|it| it.duration_within(LONGEST_WINDOW))
        .transpose()?
        .or(handle.window);
    let reports = Reports {
        operation: handle.operation.clone(),
        claim_id: handle.claim_id,
        window: window.map_or(settings.window, |it| settings.window.resized(it)),
        limits: settings.limits,
    };
    let mut start = None;
    let step = match verb {
        Verb::Renew => {
            let lease = given
                .lease
                .map(|it| it.duration_within(LONGEST_LEASE))
                .transpose()?;
            return Ok(Report::Renew(
                reports.renewal(lease.unwrap_or(handle.lease)),
            ));
        }
        Verb::Start => reports.start(handle.recovery()),
        Verb::Complete => {
            let [json, base64, content_type] = given.outcome;
            let limit_bytes = settings.outcome_limit_bytes;
            reports.complete(outcome::read(json, base64, content_type, limit_bytes)?)
        }
        Verb::Release => {
            let error = error_of(given.error, "released without a reason")?;
            let certainty = certainty_of(given.certainty)?.unwrap_or(Certainty::MaybeApplied);
            let now = settings.surroundings.clock.now();
            start = unmarked_start(handle, certainty);
            reports.release(&error, certainty, after(given.not_before, now)?)
        }
        Verb::Fail => {
            let (step, certainty) = fail(&reports, given)?;
            start = unmarked_start(handle, certainty);
            step
        }
    };
    Ok(Report::Settle { start, step })
}

/// Returns the start that a report implies: an effect that may have been applied has begun, whether or not its claim
/// was told so. Without it the record would say that the effect surely did not happen.
fn unmarked_start(handle: &Handle, certainty: Certainty) -> Option<Recovery> {
    let is_unmarked = handle.start == Start::Unmarked && certainty == Certainty::MaybeApplied;
    let is_said = is_unmarked && !semel_core::planted("H23");
    is_said.then(|| handle.recovery())
}

/// Returns the report of a failure for good. Unless it says more, the effect may have been applied.
fn fail(reports: &Reports, given: &Given<'_>) -> Result<(Settlement, Certainty), Fault> {
    let error = error_of(given.error, "failed without a reason")?;
    let certainty = certainty_of(given.certainty)?;
    let decisive = given.decisive.map(|it| it.boolean()).transpose()?;
    let is_decisive = decisive == Some(true);
    match certainty {
        Some(Certainty::MaybeApplied) if is_decisive => {
            let member = given.decisive.map(|it| {
                it.fault("a decisive failure says of every attempt that it was not applied")
            });
            Err(member.unwrap_or_else(|| Fault::new("", "decisive, and maybe applied")))
        }
        Some(Certainty::NotApplied) => {
            Ok((reports.fail(&error, is_decisive), Certainty::NotApplied))
        }
        None if is_decisive => Ok((reports.fail(&error, true), Certainty::NotApplied)),
        None | Some(Certainty::MaybeApplied) => {
            Ok((reports.give_up(&error), Certainty::MaybeApplied))
        }
    }
}

fn certainty_of(member: Option<Member<'_>>) -> Result<Option<Certainty>, Fault> {
    member.map(|it| it.one_of(&CERTAINTIES)).transpose()
}

/// Returns the reason in one line, of a long one the beginning: a report is not refused for its reason.
fn error_of(member: Option<Member<'_>>, otherwise: &str) -> Result<String, Fault> {
    let Some(member) = member else {
        return Ok(otherwise.to_owned());
    };
    let text = member.text()?;
    let mut line = String::with_capacity(text.len().min(ERROR_BYTES));
    let is_blank = |letter: char| letter.is_whitespace() || letter.is_control();
    for letter in text.trim_matches(is_blank).chars() {
        if line.len() + letter.len_utf8() > ERROR_BYTES {
            break;
        }
        line.push(if letter.is_control() { ' ' } else { letter });
    }
    Ok(line)
}

fn after(not_before: Option<Member<'_>>, now: Timestamp) -> Result<Duration, Fault> {
    let Some(member) = not_before else {
        return Ok(Duration::ZERO);
    };
    let after = member.instant()?.since(now);
    if after > LONGEST_BACKOFF {
        return Err(member.fault("this is over 30 days from now"));
    }
    Ok(after)
}

/// Checks that the caller may touch a claim of this tenant.
fn allow(caller: &Caller, handle: &Handle) -> Result<(), Problem> {
    let tenant = handle.operation.scope.tenant();
    caller.for_tenant(Some(tenant)).map(|_| ())
}

pub(super) const NO_CLAIM: &str =
    "this is no claim: pass on the member `claim` of a grant as it came";

/// The most bytes of a reason that are kept.
const ERROR_BYTES: usize = 4_096;

/// The longest wait that a release may ask for: thirty days, as in a pipeline.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30 * 86_400);
