//! Dead letters as entries of lists: those of pipelines, and those of relays, which go by ids.

use semel_operate::parked::{DeadLetter, Found};
use semel_operate::relays::RelayDeadLetter;
use serde::{Deserialize, Serialize};

use crate::{Column, Entry, Row};

/// A dead letter in a list. That of a relay has its id where others have their key.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub enum Listed {
    /// Of a pipeline.
    OfPipeline(DeadLetter),
    /// Of a relay.
    #[serde(skip_deserializing)]
    OfRelay(RelayDeadLetter),
}

impl Listed {
    /// Lays out a dead letter of a pipeline.
    pub fn of_pipeline(found: Found) -> Self {
        Self::OfPipeline(found.into())
    }
}

impl Entry for Listed {
    const COLUMNS: &'static [Column] = &[
        Column::text("key"),
        Column::text("pipeline").if_any(),
        Column::text("relay").if_any(),
        Column::text("tenant").if_any(),
        Column::word("state").at_least("completed".len()),
        Column::time("since"),
        Column::number("size_bytes").or("bytes"),
        Column::text("coordinates").if_any(),
        Column::text("order_key").if_any(),
        Column::text("error"),
    ];
    const NONE: &'static str = "no dead letters";

    fn fill(&self, row: &mut Row) {
        match self {
            Self::OfPipeline(it) => {
                row.show_some(it.key.as_ref())
                    .text(&it.pipeline)
                    .nothing()
                    .show_some(it.tenant.as_ref())
                    .text(&it.state.replace('_', " "))
                    .time(it.since.0)
                    .show(it.size_bytes)
                    .text(&it.coordinates)
                    .nothing()
                    .text(&it.error);
            }
            Self::OfRelay(it) => {
                row.text(&it.id)
                    .nothing()
                    .text(&it.relay)
                    .nothing()
                    .text(&it.state)
                    .time(it.since.0)
                    .show(it.size_bytes)
                    .nothing()
                    .show_some(it.order_key.as_ref())
                    .text(&it.error);
            }
        }
    }
}
