//! An order about dead letters of relays: the plan, the operator's consent, then page by page.

use std::collections::BTreeSet;
use std::env::args_os;
use std::ops::ControlFlow;

use semel_config::RelaySettings;
use semel_core::outbox::OutboxId;
use semel_core::port::outbox::operations::{DeadOrder, OutboxOperations};
use semel_core::{Clock, Note, Result, Timestamp};
use semel_engine::system::SystemClock;
use semel_operate::relative_time::when;
use semel_operate::relays::{RelayDeadLetter, Search};
use serde::Serialize;

use super::{at, one_relay_each, open, pages, tell_unknown};
use crate::Exit;
use crate::args::{Confirm, Format};
use crate::command::operate::{self, usage};
use crate::output::{self, Answer, Answers, Block, Go, Plan};

/// An order, who gives it and why, and how to report it.
pub(crate) struct Order<'a> {
    pub(crate) what: DeadOrder,
    pub(crate) note: &'a Note,
    pub(crate) confirm: Confirm,
    pub(crate) format: Format,
}

impl Order<'_> {
    /// Carries it out on what the search finds in the outboxes of these relays, once the operator confirmed. A message
    /// that is given up after the plan was made stays.
    ///
    /// # Errors   `InvalidInput`: messages are to be dropped without a reason
    pub(crate) fn carry_out(&self, relays: &[RelaySettings], search: &Search) -> Result<Exit> {
        let is_drop = self.what == DeadOrder::Drop;
        let lacks_reason = is_drop && self.note.reason.is_empty();
        if lacks_reason && self.confirm.yes {
            return Err(usage(
                "what a relay is to drop was promised to its readers when it was committed: say why with --reason TEXT",
            ));
        }
        operate::alone(async || {
            let Planned { mut plan, ids } = match self.planned(relays, search).await? {
                ControlFlow::Break(exit) => return Ok(exit),
                ControlFlow::Continue(planned) => planned,
            };
            plan.remark(consequence(self.what));
            if lacks_reason {
                plan.remark("it takes a reason: --reason TEXT");
            }
            if let ControlFlow::Break(exit) = plan.confirmed(self.confirm, args_os()) {
                return Ok(exit);
            }
            let mut answers = Answers::new(self.format);
            for (relay, ids) in relays.iter().zip(ids) {
                if ids.is_empty() {
                    continue;
                }
                let done = self.done(relay, search, &ids).await?;
                if done.print(&mut answers)?.is_break() {
                    break;
                }
            }
            Ok(Exit::Done)
        })
    }

    /// Makes the plan. Returns `Break` after it reported ids that no relay has.
    async fn planned(
        &self,
        relays: &[RelaySettings],
        search: &Search,
    ) -> Result<ControlFlow<Exit, Planned>> {
        let mut plan = plan_of(self.what);
        let now = SystemClock::new().now();
        let mut known: BTreeSet<OutboxId> = BTreeSet::new();
        let mut ids = Vec::with_capacity(relays.len());
        for relay in relays {
            let mut of_relay = BTreeSet::new();
            pages(relay, search, async |found| {
                for it in found {
                    if !known.insert(it.id) && !search.ids.is_empty() {
                        return Err(one_relay_each(it.id));
                    }
                    of_relay.insert(it.id);
                    let letter = RelayDeadLetter::of(&relay.name, &relay.stream, it);
                    plan.add(line(&letter, now));
                }
                if search.ids.is_empty() {
                    known.clear();
                }
                Ok(Go::Continue(()))
            })
            .await?;
            ids.push(of_relay);
        }
        let unknown: BTreeSet<OutboxId> = search.ids.difference(&known).copied().collect();
        if tell_unknown(relays, &unknown) {
            return Ok(ControlFlow::Break(Exit::No));
        }
        Ok(ControlFlow::Continue(Planned { plan, ids }))
    }

    async fn done(
        &self,
        relay: &RelaySettings,
        search: &Search,
        planned: &BTreeSet<OutboxId>,
    ) -> Result<OrderedLetters> {
        let outbox = open(relay)?;
        let (mut count, mut audited) = (0, true);
        pages(relay, search, async |found| {
            let found = found.iter().map(|it| it.id);
            let ids: Vec<OutboxId> = found.filter(|it| planned.contains(it)).collect();
            if !ids.is_empty() {
                let changed = outbox.order_dead(&relay.stream, &ids, self.what, Some(self.note));
                let changed = changed.await.map_err(|error| at(relay, error))?;
                count += changed.count;
                audited &= changed.is_audited;
            }
            Ok(Go::Continue(()))
        })
        .await?;
        Ok(OrderedLetters::of(&relay.name, self.what, count, audited))
    }
}

/// An empty plan of an order.
pub(crate) fn plan_of(order: DeadOrder) -> Plan {
    let verb = match order {
        DeadOrder::TryAgain => "replay",
        DeadOrder::Drop => "drop",
    };
    Plan::new(verb, "dead letter", "dead letters")
}

/// The consequence of an order.
pub(crate) const fn consequence(order: DeadOrder) -> &'static str {
    match order {
        DeadOrder::TryAgain => {
            "each goes out in its place; what comes behind it in its order key waits for it"
        }
        DeadOrder::Drop => {
            "they are never published; what waits behind them in their order keys goes out"
        }
    }
}

/// The line of a plan about a dead letter.
pub(crate) fn line(letter: &RelayDeadLetter, now: Timestamp) -> String {
    let RelayDeadLetter {
        id, relay, error, ..
    } = letter;
    let key = letter.order_key.as_deref().unwrap_or("no order key");
    let since = when(letter.since.0, now);
    format!("relay {relay}  {id}  {key}  {error}  dead since {since}")
}

/// A plan, and the messages of each relay in it, 16 bytes each: what is given up later was not confirmed.
struct Planned {
    plan: Plan,
    ids: Vec<BTreeSet<OutboxId>>,
}

/// The result for one relay.
#[derive(Serialize)]
pub(crate) struct OrderedLetters {
    pub(crate) relay: String,
    /// Messages that go out in their places.
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<u64>,
    /// Messages that are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
    /// True if each is on an audit trail.
    pub(crate) audited: bool,
}

impl OrderedLetters {
    /// The result of an order that changed so many.
    pub(crate) fn of(relay: &str, order: DeadOrder, count: u64, audited: bool) -> Self {
        let (replayed, dropped) = match order {
            DeadOrder::TryAgain => (Some(count), None),
            DeadOrder::Drop => (None, Some(count)),
        };
        Self {
            relay: relay.to_owned(),
            replayed,
            dropped,
            audited,
        }
    }

    /// Prints it; tells where no audit trail keeps the reason of what was dropped.
    pub(crate) fn print(&self, answers: &mut Answers) -> Result<Go> {
        if self.dropped.is_some_and(|it| it > 0) && !self.audited {
            output::note(format_args!(
                "{}: its database has no audit trail to keep the reason",
                self.relay
            ));
        }
        answers.print(self)
    }
}

impl Answer for OrderedLetters {
    fn describe(&self, block: &mut Block) {
        block
            .field("relay", &self.relay)
            .some("to be published", self.replayed)
            .some("dropped", self.dropped);
    }
}
