//! Requests for plans, read strictly: which order, and what it is about.

use std::time::Duration;

use bytes::Bytes;
use semel_core::json::Node;
use semel_core::port::outbox::operations::DeadOrder;
use semel_core::port::store::ListQuery;
use semel_core::producer::{ProducerName, ProducerOrder};
use semel_core::units;
use semel_core::{Key, Scope};
use semel_http::member::{Fault, Member, document, members, required};
use semel_http::{Caller, Problem, Role};
use semel_operate::in_doubt::Word;
use semel_operate::keys::KeyChange;
use semel_operate::pipelines::PipelineOrder;
use semel_operate::producers::Side;
use semel_worker::replay::Kind;

use super::selection::{LetterSelection, Parts, Selection, Which, names};
use crate::query::sees_everything;

/// The orders that can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Says what became of effects in doubt.
    Resolve,
    /// Drops dead letters.
    DropDeadLetters,
    /// Drops messages in quarantine.
    DropQuarantined,
    /// Calls effects in doubt again.
    Retry,
    /// Runs dead letters again.
    ReplayDeadLetters,
    /// Runs messages in quarantine.
    ReleaseQuarantined,
    /// Lets relays try their dead letters again.
    ReplayRelayLetters,
    /// Drops dead letters of relays.
    DropRelayLetters,
    /// Ends leases and backoffs.
    Release,
    /// Removes records.
    Forget,
    /// Keeps records beyond their window, or no longer.
    Hold,
    /// Remembers finished keys for longer.
    Extend,
    /// Removes what has passed its window.
    Sweep,
    /// Pauses a pipeline.
    PausePipeline,
    /// Drains a pipeline.
    DrainPipeline,
    /// Resumes a pipeline.
    ResumePipeline,
    /// Keeps the messages of a producer.
    FreezeProducer,
    /// Lets them go, and those that come.
    ThawProducer,
    /// Lets go what was kept.
    ReleaseProducer,
}

/// An order that was understood, of a caller that may give it.
#[derive(Debug)]
pub(super) enum Order {
    /// A person's statement about doubts.
    Resolve(Word, Selection),
    /// Messages of this kind are dropped.
    Drop(Kind, Selection),
    /// Messages of this kind are run again; one in quarantine perhaps as an operation of its own, under a key.
    Rerun(Kind, Selection, Option<Key>),
    /// Dead letters of relays are tried again or dropped.
    Letters(DeadOrder, LetterSelection),
    /// Records of keys are changed.
    Change(KeyChange, Selection),
    /// Every finished key of a pipeline is remembered for longer.
    ExtendAll(Duration, ListQuery),
    /// The store is swept.
    Sweep,
    /// Pipelines are paused, drained or resumed.
    Pipelines(PipelineOrder, Vec<String>),
    /// Producers are frozen, thawed or released: those of these names or ids, of one side or of both.
    Producers(ProducerOrder, Vec<String>, Option<Side>),
}

impl Action {
    /// Every order.
    pub(crate) const ALL: [Self; 19] = [
        Self::Resolve,
        Self::DropDeadLetters,
        Self::DropQuarantined,
        Self::Retry,
        Self::ReplayDeadLetters,
        Self::ReleaseQuarantined,
        Self::ReplayRelayLetters,
        Self::DropRelayLetters,
        Self::Release,
        Self::Forget,
        Self::Hold,
        Self::Extend,
        Self::Sweep,
        Self::PausePipeline,
        Self::DrainPipeline,
        Self::ResumePipeline,
        Self::FreezeProducer,
        Self::ThawProducer,
        Self::ReleaseProducer,
    ];

    /// Its path below `/v1/`, without `/plan` or `/do`.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Resolve => "in-doubt/resolve",
            Self::DropDeadLetters => "dead-letters/drop",
            Self::DropQuarantined => "quarantine/drop",
            Self::Retry => "in-doubt/retry",
            Self::ReplayDeadLetters => "dead-letters/replay",
            Self::ReleaseQuarantined => "quarantine/release",
            Self::ReplayRelayLetters => "relays/dead-letters/replay",
            Self::DropRelayLetters => "relays/dead-letters/drop",
            Self::Release => "keys/release",
            Self::Forget => "keys/forget",
            Self::Hold => "keys/hold",
            Self::Extend => "keys/extend",
            Self::Sweep => "store/sweep",
            Self::PausePipeline => "pipelines/pause",
            Self::DrainPipeline => "pipelines/drain",
            Self::ResumePipeline => "pipelines/resume",
            Self::FreezeProducer => "producers/freeze",
            Self::ThawProducer => "producers/thaw",
            Self::ReleaseProducer => "producers/release",
        }
    }

    /// The role that it takes, to plan it as well as to carry it out.
    pub(crate) const fn role(self) -> Role {
        match self {
            Self::Resolve
            | Self::DropDeadLetters
            | Self::DropQuarantined
            | Self::Retry
            | Self::ReplayDeadLetters
            | Self::ReleaseQuarantined
            | Self::ReplayRelayLetters
            | Self::DropRelayLetters
            | Self::Release
            | Self::Forget
            | Self::Hold
            | Self::Extend
            | Self::PausePipeline
            | Self::DrainPipeline
            | Self::ResumePipeline
            | Self::FreezeProducer
            | Self::ThawProducer
            | Self::ReleaseProducer => Role::Operator,
            // It concerns every tenant.
            Self::Sweep => Role::Admin,
        }
    }
}

impl Order {
    /// Reads the body of a request for a plan.
    ///
    /// # Errors
    ///
    /// 400: it cannot be meant; 403: the caller is confined to another tenant
    pub(super) fn read(action: Action, body: &[u8], caller: &Caller) -> Result<Self, Problem> {
        let document = document(body)?;
        let root = document.root();
        match action {
            Action::Resolve => Self::resolve(root, caller),
            Action::DropDeadLetters => Self::drop(root, caller, Kind::DeadLetters),
            Action::DropQuarantined => Self::drop(root, caller, Kind::Quarantined),
            Action::Retry => Self::rerun(root, caller, Kind::InDoubt),
            Action::ReplayDeadLetters => Self::rerun(root, caller, Kind::DeadLetters),
            Action::ReleaseQuarantined => Self::release(root, caller),
            Action::ReplayRelayLetters => Self::letters(root, caller, DeadOrder::TryAgain),
            Action::DropRelayLetters => Self::letters(root, caller, DeadOrder::Drop),
            Action::Release => Self::change(root, caller, KeyChange::Release),
            Action::Forget => Self::change(root, caller, KeyChange::Forget),
            Action::Hold => Self::hold(root, caller),
            Action::Extend => Self::extend(root, caller),
            Action::Sweep => {
                let [] = members(root, "", [])?;
                sees_everything(caller)?;
                Ok(Self::Sweep)
            }
            Action::PausePipeline => Self::pipelines(root, caller, PipelineOrder::Pause),
            Action::DrainPipeline => Self::pipelines(root, caller, PipelineOrder::Drain),
            Action::ResumePipeline => Self::pipelines(root, caller, PipelineOrder::Resume),
            Action::FreezeProducer => Self::producers(root, caller, ProducerOrder::Freeze),
            Action::ThawProducer => Self::producers(root, caller, ProducerOrder::Thaw),
            Action::ReleaseProducer => Self::producers(root, caller, ProducerOrder::Release),
        }
    }

    fn resolve(root: Node<'_>, caller: &Caller) -> Result<Self, Problem> {
        let names = [
            "keys",
            "ids",
            "all",
            "older_than",
            "reason_like",
            "pipeline",
            "tenant",
            "verdict",
            "outcome",
            "outcome_base64",
            "quiet",
        ];
        let [
            keys,
            ids,
            all,
            older_than,
            reason_like,
            pipeline,
            tenant,
            verdict,
            outcome,
            outcome_base64,
            quiet,
        ] = members(root, "", names)?;
        let verdict = required(verdict, "", "verdict")?;
        let word = word(verdict, outcome, outcome_base64, quiet)?;
        let parts = Parts {
            keys,
            ids,
            all,
            older_than,
            reason_like,
        };
        let selection = Selection::read(&parts, within(caller, pipeline, tenant)?)?;
        Ok(Self::Resolve(word, selection))
    }

    fn drop(root: Node<'_>, caller: &Caller, kind: Kind) -> Result<Self, Problem> {
        let selection = Self::messages(members(root, "", MESSAGES)?, caller)?;
        Ok(Self::Drop(kind, selection))
    }

    fn rerun(root: Node<'_>, caller: &Caller, kind: Kind) -> Result<Self, Problem> {
        let selection = Self::messages(members(root, "", MESSAGES)?, caller)?;
        Ok(Self::Rerun(kind, selection, None))
    }

    /// Reads an order to run messages in quarantine. A key is for one message.
    fn release(root: Node<'_>, caller: &Caller) -> Result<Self, Problem> {
        let [keys, ids, all, older, like, pipeline, tenant] = MESSAGES;
        let names = [keys, ids, all, older, like, pipeline, tenant, "key"];
        let [keys, ids, all, older, like, pipeline, tenant, key] = members(root, "", names)?;
        let selected = [keys, ids, all, older, like, pipeline, tenant];
        let selection = Self::messages(selected, caller)?;
        let is_one = matches!(&selection.which, Which::Ids(ids) if ids.len() == 1);
        if let Some(key) = key.filter(|_| !is_one) {
            return Err(key.fault("a key is for one message: name its id").into());
        }
        let key = key.map(|it| it.printed_key()).transpose()?;
        Ok(Self::Rerun(Kind::Quarantined, selection, key))
    }

    fn messages(
        [keys, ids, all, older_than, reason_like, pipeline, tenant]: [Option<Member<'_>>; 7],
        caller: &Caller,
    ) -> Result<Selection, Problem> {
        let parts = Parts {
            keys,
            ids,
            all,
            older_than,
            reason_like,
        };
        let within = within(caller, pipeline, tenant)?;
        Ok(Selection::read(&parts, within)?)
    }

    /// Reads an order about dead letters of relays. They have messages of every tenant.
    fn letters(root: Node<'_>, caller: &Caller, order: DeadOrder) -> Result<Self, Problem> {
        let names = ["relay", "ids", "all", "older_than", "reason_like"];
        let [relay, ids, all, older_than, reason_like] = members(root, "", names)?;
        sees_everything(caller)?;
        let parts = Parts {
            all,
            older_than,
            reason_like,
            ..Parts::named(None, ids)
        };
        Ok(Self::Letters(order, LetterSelection::read(relay, &parts)?))
    }

    /// Reads an order about pipelines. They have messages of every tenant.
    fn pipelines(root: Node<'_>, caller: &Caller, order: PipelineOrder) -> Result<Self, Problem> {
        let [pipelines] = members(root, "", ["pipelines"])?;
        sees_everything(caller)?;
        let pipelines = required(pipelines, "", "pipelines")?;
        let names = names(&pipelines, |name| match Scope::new("", name) {
            Ok(_) => Ok(name.to_owned()),
            Err(error) => Err(error.to_string()),
        })?;
        Ok(Self::Pipelines(order, names))
    }

    /// Reads an order about producers. They have messages of every tenant.
    fn producers(root: Node<'_>, caller: &Caller, order: ProducerOrder) -> Result<Self, Problem> {
        let [producers, side] = members(root, "", ["producers", "side"])?;
        sees_everything(caller)?;
        let producers = required(producers, "", "producers")?;
        let names = names(&producers, |name| match ProducerName::of_sender(name) {
            Ok(_) => Ok(name.to_owned()),
            Err(error) => Err(error.to_string()),
        })?;
        let side = side.map(|it| {
            let known = Side::of_word(&it.text()?);
            known.ok_or_else(|| it.fault("this must be one of: publisher, sender"))
        });
        Ok(Self::Producers(order, names, side.transpose()?))
    }

    fn hold(root: Node<'_>, caller: &Caller) -> Result<Self, Problem> {
        let [keys, ids, pipeline, tenant, off] =
            members(root, "", ["keys", "ids", "pipeline", "tenant", "off"])?;
        let is_off = off.map_or(Ok(false), |it| it.boolean())?;
        let within = within(caller, pipeline, tenant)?;
        let selection = Selection::read(&Parts::named(keys, ids), within)?;
        Ok(Self::Change(KeyChange::Hold(!is_off), selection))
    }

    /// Reads an order to remember keys for longer: some, or every finished one of a pipeline.
    fn extend(root: Node<'_>, caller: &Caller) -> Result<Self, Problem> {
        let names = ["keys", "ids", "all", "pipeline", "tenant", "window"];
        let [keys, ids, all, pipeline, tenant, window] = members(root, "", names)?;
        let window = required(window, "", "window")?;
        let wanted = units::window(&window.text()?).map_err(|why| window.fault(why))?;
        let within = within(caller, pipeline, tenant)?;
        let parts = Parts {
            all,
            ..Parts::named(keys, ids)
        };
        let selection = Selection::read(&parts, within)?;
        Ok(match selection.which {
            Which::All { .. } => Self::ExtendAll(wanted, selection.within),
            Which::Keys(_) | Which::Ids(_) => Self::Change(KeyChange::Extend(wanted), selection),
        })
    }

    fn change(root: Node<'_>, caller: &Caller, change: KeyChange) -> Result<Self, Problem> {
        let [keys, ids, pipeline, tenant] =
            members(root, "", ["keys", "ids", "pipeline", "tenant"])?;
        let within = within(caller, pipeline, tenant)?;
        let selection = Selection::read(&Parts::named(keys, ids), within)?;
        Ok(Self::Change(change, selection))
    }
}

/// Reads the reason in a body that has nothing else.
///
/// # Errors
///
/// 400: the body cannot be meant
pub(crate) fn reason_alone(body: &[u8]) -> Result<Box<str>, Problem> {
    let document = document(body)?;
    let [member] = members(document.root(), "", ["reason"])?;
    let text = reason(&required(member, "", "reason")?)?;
    Ok(text.into())
}

/// Reads a reason: a line with words in it.
pub(super) fn reason(member: &Member<'_>) -> Result<String, Fault> {
    let text = member.text_within(MOST_REASON_BYTES)?;
    if text.trim().is_empty() {
        return Err(member.fault("say why: the audit trail keeps it"));
    }
    let is_unprintable = |it: char| it.is_control() && !it.is_whitespace();
    if text.chars().any(is_unprintable) {
        return Err(member.fault("this contains a control character"));
    }
    Ok(text.into_owned())
}

fn word(
    verdict: Member<'_>,
    outcome: Option<Member<'_>>,
    base64: Option<Member<'_>>,
    quiet: Option<Member<'_>>,
) -> Result<Word, Fault> {
    let word = match &*verdict.text()? {
        "applied" => match (outcome, base64) {
            (Some(_), Some(base64)) => {
                return Err(base64.fault("an outcome is given either as text or in base64"));
            }
            (Some(outcome), None) => Word::Applied(outcome.text()?.into_owned().into()),
            (None, Some(base64)) => Word::Applied(base64.base64()?),
            (None, None) => Word::Applied(Bytes::new()),
        },
        "not_applied" => Word::NotApplied(quiet.map(|it| it.duration()).transpose()?),
        "abandon" => Word::Abandon,
        _ => return Err(verdict.fault("this must be one of: applied, not_applied, abandon")),
    };
    let outcome = outcome.or(base64);
    match (&word, outcome, quiet) {
        (Word::NotApplied(_) | Word::Abandon, Some(outcome), _) => {
            Err(outcome.fault("an outcome belongs to the verdict `applied`"))
        }
        (Word::Applied(_) | Word::Abandon, _, Some(quiet)) => {
            Err(quiet.fault("this belongs to the verdict `not_applied`"))
        }
        (Word::Applied(_) | Word::NotApplied(_) | Word::Abandon, ..) => Ok(word),
    }
}

fn within(
    caller: &Caller,
    pipeline: Option<Member<'_>>,
    tenant: Option<Member<'_>>,
) -> Result<ListQuery, Problem> {
    let pipeline = pipeline.map(|it| it.text()).transpose()?;
    let tenant = tenant.map(|it| it.text()).transpose()?;
    crate::query::within(caller, pipeline.as_deref(), tenant.as_deref())
}

/// The members that say which messages are meant.
const MESSAGES: [&str; 7] = [
    "keys",
    "ids",
    "all",
    "older_than",
    "reason_like",
    "pipeline",
    "tenant",
];
/// The longest reason.
pub(crate) const MOST_REASON_BYTES: usize = 1_024;
