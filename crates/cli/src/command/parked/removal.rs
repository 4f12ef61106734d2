//! Drops parked messages: a plan, the operator's consent, then page by page.

use std::env::args_os;
use std::ops::ControlFlow;

use semel_core::{Note, Result, Timestamp};
use semel_operate::parked::Search;
use semel_operate::relative_time::when;
use semel_render::names::place_text;
use semel_render::reports::parked::{Dropped, name_of};
use semel_worker::replay::Kind;

use super::name::{Messages, look_up};
use crate::Exit;
use crate::args::{Confirm, Format};
use crate::command::operate::Ground;
use crate::output::{Answers, Go, Plan};
use crate::progress::{Bars, Unit};

/// Drops the selected messages, once the operator confirmed. A message that is parked after the plan was made
/// stays.
pub(crate) async fn drop_all(
    ground: &Ground,
    search: &Search,
    note: &Note,
    confirm: Confirm,
    format: Format,
) -> Result<Exit> {
    let Messages { search, scopes, .. } = match look_up(ground, search).await? {
        ControlFlow::Break(()) => return Ok(Exit::No),
        ControlFlow::Continue(messages) => messages,
    };
    let (mut plan, until) = plan(ground, &search).await?;
    ground.remark_on_use(&mut plan);
    ground.bind_tenants(&mut plan, &scopes);
    if let ControlFlow::Break(exit) = plan.confirmed(confirm, args_os()) {
        return Ok(exit);
    }
    let bars = Bars::new();
    let bar = bars.of_work("drop", Unit::Records, Some(plan.count()));
    let mut done = Dropped::default();
    search
        .remove(&ground.store, until, note, |_, dropped| {
            done.dropped += dropped.iter().filter(|&&was_there| was_there).count() as u64;
            bar.advance(dropped.len() as u64);
        })
        .await?;
    drop(bar);
    bars.clear();
    let _ = Answers::new(format).print(&done)?;
    Ok(Exit::Done)
}

/// Makes the plan; returns also since when the latest of the messages is kept.
async fn plan(ground: &Ground, search: &Search) -> Result<(Plan, Timestamp)> {
    let mut plan = match search.kind {
        Kind::DeadLetters => Plan::new("drop", "dead letter", "dead letters"),
        Kind::InDoubt => Plan::new("drop", "message of a doubt", "messages of doubts"),
        Kind::Quarantined => Plan::new("drop", "message in quarantine", "messages in quarantine"),
    };
    let mut until = Timestamp::EPOCH;
    search
        .pages(&ground.store, async |found| {
            for it in &found {
                let message = &it.message;
                until = until.max(message.since);
                plan.add_of(
                    &message.scope,
                    format_args!(
                        "{}  {}  {}  kept since {}",
                        place_text(&message.scope),
                        name_of(message),
                        message.reason,
                        when(message.since, ground.now())
                    ),
                );
            }
            Ok(Go::Continue(()))
        })
        .await?;
    plan.remark("nothing else keeps them: what is not delivered again is lost");
    Ok((plan, until))
}
