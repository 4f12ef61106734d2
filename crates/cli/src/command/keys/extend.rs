//! `semel keys extend`: remembers finished keys for longer than their window says.

use semel_core::Result;
use semel_core::decide::Order;
use semel_core::port::store::{ListQuery, Listed, Page, Store};
use semel_operate::keys::{KeyChange, Planned, Proposal};

use super::change::{carry_out, change, confirmed, ended, list, seen, standing_of};
use crate::Exit;
use crate::args::keys::{Change, Extend};
use crate::command::operate::{self, Ground, usage};
use crate::output::Plan;

/// Extends windows: those of some keys, or those of all keys of a pipeline.
pub(crate) fn extend(arguments: &Extend) -> Result<Exit> {
    let verb = KeyChange::Extend(arguments.window);
    let Change {
        keys, keys_from, ..
    } = &arguments.change;
    if keys.is_empty() && keys_from.is_none() && !arguments.all {
        return Err(usage("which ones? name keys, or --all"));
    }
    if arguments.all {
        all(arguments, verb)
    } else {
        change(&arguments.change, VERB, verb)
    }
}

/// Extends every finished key of the pipeline, page by page while workers run: a key that finishes meanwhile
/// gets the window that its pipeline has then.
///
/// # Cost   holds one page; two walks over the pipeline
fn all(arguments: &Extend, verb: KeyChange) -> Result<Exit> {
    let Extend { change, .. } = arguments;
    operate::plan(&change.common, change.confirm, async |ground| {
        let within = ground.one_pipeline()?;
        ground.refuse_streamed(ground.pipeline_name()?, &[])?;
        let mut plan = Plan::new(VERB, "key", "keys");
        let mut query = Some(of(&within));
        while let Some(planned) = next(ground, verb, &mut query).await? {
            for (planned, standing) in planned {
                plan.add_of(&planned.operation.scope, standing);
            }
        }
        ground.remark_on_use(&mut plan);
        if let Some(exit) = confirmed(change, &plan)? {
            return Ok(exit);
        }
        let mut query = Some(of(&within));
        let mut list = list(change);
        let mut is_carried_out = true;
        while let Some(planned) = next(ground, verb, &mut query).await? {
            let planned = planned.into_iter().map(|(planned, _)| planned).collect();
            is_carried_out &= carry_out(ground, change, planned, &mut list).await?;
        }
        list.end()?;
        Ok(ended(is_carried_out))
    })
}

/// Returns the orders for the next page, each with the state of its record; nothing after the last page.
async fn next(
    ground: &Ground,
    verb: KeyChange,
    query: &mut Option<ListQuery>,
) -> Result<Option<Vec<(Planned, String)>>> {
    let Some(mut asked) = query.take() else {
        return Ok(None);
    };
    let Page { items, next } = ground.store.list(&asked).await?;
    let planned = items
        .into_iter()
        .filter_map(|Listed { operation, record }| {
            let proposal = verb.propose(seen(ground, &operation, &record));
            let Proposal::Do {
                order: order @ Order::Extend(_),
                ..
            } = proposal
            else {
                return None;
            };
            let shown = standing_of(ground, &operation, &record);
            Some((Planned::new(operation, &record, order), shown))
        });
    let planned = planned.collect();
    *query = next.map(|after| {
        asked.after = Some(after);
        asked
    });
    Ok(Some(planned))
}

fn of(within: &ListQuery) -> ListQuery {
    ListQuery {
        limit: PAGE,
        ..within.clone()
    }
}

const VERB: &str = "extend";
const PAGE: usize = 1_000;
