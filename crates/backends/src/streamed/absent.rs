//! Stand-in for a program without Kafka.

use std::future::ready;
use std::sync::Arc;

use semel_config::SourceSettings;
use semel_core::port::source::AnySource;
use semel_core::port::streamed::{Claimed, Committed, Finished, Standing, StreamedStore, Turn};
use semel_core::{ClaimRequest, OpId, Parked, Record, Result, Timestamp, Window};
use semel_engine::pipeline::Pipeline;
use semel_engine::surroundings::Surroundings;
use semel_worker::settings::StreamedSettings;

use super::Monitor;
use crate::source::not_built_in;

/// Answers that Kafka is not built in.
///
/// # Errors
///
/// `Unsupported`.
pub async fn publish_again(_source: &SourceSettings, _messages: &[Parked]) -> Result<()> {
    ready(Err(not_built_in("kafka"))).await
}

/// Answers that Kafka is not built in.
///
/// # Errors
///
/// `Unsupported`.
pub async fn records(
    _source: &SourceSettings,
    _settings: &StreamedSettings,
    _window: Window,
    _operations: Vec<OpId>,
    _requests: &[Option<&ClaimRequest>],
    _now: Timestamp,
) -> Result<Vec<Option<Record>>> {
    ready(Err(not_built_in("kafka"))).await
}

/// Answers that Kafka is not built in.
///
/// # Errors
///
/// `Unsupported`.
pub fn open(
    _source: &SourceSettings,
    _settings: &StreamedSettings,
    _pipeline: &Pipeline,
    _around: &Surroundings,
) -> Result<(AnySource, Absent, Arc<dyn Monitor>)> {
    Err(not_built_in("kafka"))
}

/// The transactions of a build without Kafka, which do not exist.
pub enum Absent {}

impl StreamedStore for Absent {
    async fn admit(&self, _batch: &[Claimed<'_>]) -> Result<Vec<Standing>> {
        match *self {}
    }

    async fn commit(
        &self,
        _batch: &Arc<Vec<Finished>>,
        _turn: impl Turn,
    ) -> Result<Vec<Committed>> {
        match *self {}
    }
}
