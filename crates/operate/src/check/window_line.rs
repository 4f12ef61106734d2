//! The window of one pipeline beside what its broker needs: a row of the table that ends a check.

use std::borrow::Cow;

use semel_config::PipelineSettings;
use semel_core::port::horizon::Horizon;
use semel_core::units::duration_text;
use serde::{Deserialize, Serialize};

use super::broker::{Broker, Reached};
use super::window::{Shown, Verdict};

/// The window of a pipeline that reads a broker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowLine {
    /// The pipeline.
    pub pipeline: String,
    /// The class of its effect.
    pub class: Cow<'static, str>,
    /// The time for which a message that was not acknowledged can come again.
    pub redelivery: String,
    /// The time for which a message that was acknowledged can be read again.
    pub replay: String,
    /// The time for which a key has to be remembered.
    pub needed: String,
    /// The window as it is set.
    pub set: String,
    /// The comparison of the two.
    pub verdict: Cow<'static, str>,
    /// The settings of the broker that could not be read, or the code of the failure to ask it.
    pub not_read: String,
}

impl WindowLine {
    /// Makes the row of a pipeline; none of one whose source is no broker.
    pub fn of(
        broker: &Broker,
        settings: &PipelineSettings,
        class: Cow<'static, str>,
    ) -> Option<Self> {
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
                verdict: Verdict::Unknown.as_str().into(),
                not_read: error.code().as_str().to_owned(),
            });
        }
        let reached = Reached::of(broker, settings)?;
        let unread: Vec<_> = reached.unread.iter().map(|it| &*it.setting).collect();
        Some(Self {
            pipeline,
            class,
            redelivery: reached.redelivery.to_string(),
            replay: reached.replay.to_string(),
            needed: reached.needed.to_string(),
            set,
            verdict: reached.verdict.as_str().into(),
            not_read: if unread.is_empty() {
                "-".to_owned()
            } else {
                unread.join(", ")
            },
        })
    }
}
