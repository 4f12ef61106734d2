//! The table of the windows of all pipelines.

use semel_config::PipelineSettings;
use semel_core::port::horizon::Horizon;
use semel_core::units::duration_text;
use semel_operate::check::window::{Shown, Verdict};
use semel_operate::check::{Broker, Reached};
use serde::Serialize;

use crate::{Column, Entry, Row};

/// A row of the table of all pipelines.
#[derive(Serialize)]
pub struct WindowLine {
    pipeline: String,
    class: &'static str,
    redelivery: String,
    replay: String,
    needed: String,
    set: String,
    verdict: &'static str,
    not_read: String,
}

impl WindowLine {
    /// Makes the row of a pipeline; none of one whose source is no broker.
    pub fn of(broker: &Broker, settings: &PipelineSettings, class: &'static str) -> Option<Self> {
        let pipeline = settings.pipeline.name.to_string();
        let set = duration_text(settings.pipeline.window.duration());
        if let Err(error) = &broker.horizons {
            let unknown = || Shown(Horizon::Unknown).to_string();
            return Some(Self {
                pipeline,
                class,
                redelivery: unknown(),
                replay: unknown(),
                needed: unknown(),
                set,
                verdict: Verdict::Unknown.as_str(),
                not_read: error.code().as_str().to_owned(),
            });
        }
        let reached = Reached::of(broker, settings)?;
        let unread: Vec<_> = reached.unread.iter().map(|it| it.setting).collect();
        Some(Self {
            pipeline,
            class,
            redelivery: reached.redelivery.to_string(),
            replay: reached.replay.to_string(),
            needed: reached.needed.to_string(),
            set,
            verdict: reached.verdict.as_str(),
            not_read: if unread.is_empty() {
                "-".to_owned()
            } else {
                unread.join(", ")
            },
        })
    }
}

impl Entry for WindowLine {
    const COLUMNS: &'static [Column] = &[
        Column::key("pipeline"),
        Column::word("class"),
        Column::word("redelivery"),
        Column::word("replay"),
        Column::word("needed"),
        Column::word("set"),
        Column::word("verdict"),
        Column::text("not_read"),
    ];
    const NONE: &'static str = "no brokers";

    fn fill(&self, row: &mut Row) {
        row.text(&self.pipeline)
            .text(self.class)
            .text(&self.redelivery)
            .text(&self.replay)
            .text(&self.needed)
            .text(&self.set)
            .text(self.verdict)
            .text(&self.not_read);
    }
}
