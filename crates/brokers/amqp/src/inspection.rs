//! Horizons of a queue, which AMQP hardly gives: only the management interface shows a queue's arguments and policies.
//! Looks only: declares and consumes nothing.

use std::time::Duration;

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Queue};
use semel_core::port::horizon::HorizonReport;
use semel_core::units::spelled;
use semel_core::{Code, Result};
use tokio::time::timeout;

use crate::address::{Address, OPEN};
use crate::connection::connect;
use crate::error;
use crate::options::Options;
use crate::session::REPLY_SUCCESS;
use crate::source::AmqpSource;

/// Checks that the queue is there, and returns the little that AMQP tells of it. Both horizons are unknown.
///
/// # Errors
///
/// As those of [`AmqpSource::connect`]
///
/// # Cancel safety
///
/// Safe
pub async fn inspect(options: &Options) -> Result<HorizonReport> {
    AmqpSource::new(options.clone())?;
    let address = Address::of(&options.url, &options.tls, Code::SourceUnavailable)?;
    let connection = connect(&address, "semel check").await?;
    let declaring = async {
        let channel = connection.create_channel().await?;
        passively(&channel, &options.queue).await
    };
    let declared = timeout(OPEN, declaring).await;
    let declared = declared.map_err(|_| error::silent(&address))?;
    let queue = declared.map_err(|error| error::of_queue(&address, &options.queue, error))?;
    // The connection goes, even if this fails.
    let _ = timeout(OPEN, connection.close(REPLY_SUCCESS, "OK".into())).await;
    Ok(of_queue(queue.message_count(), queue.consumer_count()))
}

/// Asks about a queue, and makes none.
pub(crate) async fn passively(channel: &Channel, queue: &str) -> Result<Queue, lapin::Error> {
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let declared = channel.queue_declare(queue.into(), passive, FieldTable::default());
    declared.await
}

fn of_queue(messages: u32, consumers: u32) -> HorizonReport {
    let mut horizons = HorizonReport::unknown();
    horizons.hold = Some(CONSUMER_TIMEOUT);
    horizons.fact("messages", messages.to_string(), "ready in the queue now");
    horizons.fact("consumers", consumers.to_string(), "of the queue now");
    let why = "AMQP tells no arguments and no policies of a queue";
    for name in ["x-message-ttl", "x-max-length", "x-delivery-limit"] {
        horizons.unread(name, why);
    }
    let timeout = spelled(CONSUMER_TIMEOUT);
    let why = format!("{why}; taken for {timeout}, which is RabbitMQ's own");
    horizons.unread("x-consumer-timeout", why);
    horizons
}

/// The default of RabbitMQ, unless it was changed.
const CONSUMER_TIMEOUT: Duration = Duration::from_secs(1_800);

#[cfg(test)]
mod tests {
    use semel_core::port::horizon::Horizon;

    use super::*;

    #[test]
    fn what_amqp_does_not_tell_is_not_guessed() {
        let horizons = of_queue(3, 1);
        assert_eq!(horizons.redelivery, Horizon::Unknown);
        assert_eq!(horizons.replay, Horizon::Unknown);
        assert!(!horizons.is_stamped, "`timestamp` is the publisher's");
        assert_eq!(horizons.unread.len(), 4);
        assert_eq!(horizons.hold, Some(CONSUMER_TIMEOUT));
    }
}
