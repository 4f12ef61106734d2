//! Reads captured messages in the same way as the source of a pipeline does.

use std::path::Path;

use semel_backends::source;
use semel_config::{PipelineSettings, SourceSettings};
use semel_core::Result;
use semel_operate::check::Sample;

/// Reads at most `limit` messages of `file` in the way that `settings` say.
///
/// # Errors
///
/// Those of the source
///
/// # Cancel safety   safe for a file; what was read of standard input is lost
pub(crate) async fn sample(file: &Path, settings: &PipelineSettings, limit: u64) -> Result<Sample> {
    let format = match settings.source {
        SourceSettings::File { format, .. } | SourceSettings::Stdin { format } => format,
        // One message per line, the usual way to write them down.
        SourceSettings::Kafka(_)
        | SourceSettings::Nats(_)
        | SourceSettings::Amqp(_)
        | SourceSettings::Webhook(_)
        | SourceSettings::Ingest(_) => semel_broker_file::Format::default(),
    };
    let source = if file == Path::new("-") {
        SourceSettings::Stdin { format }
    } else {
        SourceSettings::File {
            path: file.to_owned(),
            format,
        }
    };
    let name = file.display().to_string();
    let (longest, lease) = (settings.pipeline.max_message_bytes, settings.pipeline.lease);
    let source = source::open(&source, longest, lease, None).await?;
    Sample::read(name, source, settings, limit).await
}
