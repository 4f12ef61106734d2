//! Forecasts what would become of messages: asks the decisions themselves, and changes nothing.

use std::collections::BTreeMap;

use semel_core::{Key, Result, Scope, Timestamp};
use semel_operate::parked::{self, Foretold, Found, Search};
use semel_render::names::place_text;
use semel_render::reports::parked::name_of;
use semel_worker::replay::{Assessor, Kind, Prospect};

use crate::args::{Format, Listing};
use crate::command::operate::Ground;
use crate::output::{Go, List, Plan};

/// A plan, and facts that are known once it is made.
pub(super) struct Forecast {
    pub(super) plan: Plan,
    /// The time since which the latest of the messages is kept.
    pub(super) until: Timestamp,
    /// Bytes of payload by pipeline, of the messages that are run.
    pub(super) bytes: BTreeMap<Scope, u64>,
    /// The number of messages that are left alone, by reason.
    pub(super) refused: BTreeMap<Box<str>, u64>,
}

impl Forecast {
    /// Forecasts the fate of each message, under `key` in place of its own if there is one. With `listed`, prints each
    /// as data.
    pub(super) async fn make(
        ground: &Ground,
        search: &Search,
        key: Option<&Key>,
        listed: Option<Format>,
    ) -> Result<Self> {
        let mut forecast = Self {
            plan: match search.kind {
                Kind::DeadLetters => Plan::new("replay", "dead letter", "dead letters"),
                Kind::InDoubt => Plan::new("retry", "doubt", "doubts"),
                Kind::Quarantined => Plan::new("release", "message", "messages"),
            },
            until: Timestamp::EPOCH,
            bytes: BTreeMap::new(),
            refused: BTreeMap::new(),
        };
        let mut list = listed.map(|format| {
            List::new(&Listing {
                format,
                limit: None,
            })
        });
        let mut assessors = BTreeMap::new();
        search
            .pages(&ground.store, async |found| {
                let how = (search.kind, key);
                for (found, prospect) in assess(ground, how, &mut assessors, found).await? {
                    forecast.add(ground, &found, &prospect);
                    if let Some(list) = &mut list
                        && list
                            .push(&Foretold::of(&found, &prospect, search.kind))?
                            .is_break()
                    {
                        return Ok(Go::Break(()));
                    }
                }
                list.as_mut().map_or(Ok(Go::Continue(())), List::pause)
            })
            .await?;
        if let Some(list) = list {
            list.end()?;
        }
        Ok(forecast)
    }

    fn add(&mut self, ground: &Ground, found: &Found, prospect: &Prospect) {
        let message = &found.message;
        self.until = self.until.max(message.since);
        if let Prospect::Refused(why) = prospect {
            *self.refused.entry(why.clone()).or_default() += 1;
            return;
        }
        // What is run belongs to a pipeline, whose tenants run together.
        let pipeline = ground.pipeline_of(&message.scope);
        let scope = pipeline.map_or(&message.scope, |it| &it.pipeline.scope);
        *self.bytes.entry(scope.clone()).or_default() += message.payload.len() as u64;
        self.plan.add_of(
            &message.scope,
            format_args!(
                "{}  {}  {}: {prospect}",
                place_text(&message.scope),
                name_of(message),
                message.reason,
            ),
        );
    }
}

/// Assesses a page, which may hold messages of several pipelines.
pub(super) async fn assess(
    ground: &Ground,
    how: (Kind, Option<&Key>),
    assessors: &mut BTreeMap<Scope, Assessor>,
    found: Vec<Found>,
) -> Result<Vec<(Found, Prospect)>> {
    let look_up = |operations: Vec<_>, requests: Vec<_>| async move {
        ground.records(&operations, &requests).await
    };
    let (pipelines, now) = (&ground.pipelines, ground.now());
    parked::assess(pipelines, how, assessors, found, look_up, now).await
}
