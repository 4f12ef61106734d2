//! The messages that wait in a queue. Looks only, over a connection of its own.

use lapin::{Channel, Connection};
use semel_core::{Code, Result};
use tokio::time::timeout;

use crate::address::{Address, OPEN};
use crate::connection::connect;
use crate::error;
use crate::inspection::passively;
use crate::options::Options;

/// Counts what a queue has and has not handed over, as often as it is asked.
pub struct Backlog {
    options: Options,
    /// The connection, as long as it works.
    open: Option<(Connection, Channel)>,
}

impl Backlog {
    /// Returns a backlog that connects when it is first asked.
    pub const fn new(options: Options) -> Self {
        Self {
            options,
            open: None,
        }
    }

    /// Returns the count.
    ///
    /// # Errors
    ///
    /// The broker is away, or the queue is not there
    ///
    /// # Cancel safety
    ///
    /// Safe; the next call connects anew
    pub async fn count(&mut self) -> Result<u64> {
        let Options {
            url, tls, queue, ..
        } = &self.options;
        let address = Address::of(url, tls, Code::SourceUnavailable)?;
        let open = self.open.take();
        let counting = async {
            let (connection, channel) = if let Some(open) = open {
                open
            } else {
                let connection = connect(&address, "semel lag").await?;
                let channel = connection.create_channel().await;
                let channel = channel.map_err(|error| error::of_queue(&address, queue, error))?;
                (connection, channel)
            };
            let declared = passively(&channel, queue).await;
            let declared = declared.map_err(|error| error::of_queue(&address, queue, error))?;
            Ok(((connection, channel), declared.message_count()))
        };
        let counted = timeout(OPEN, counting).await;
        let (open, count) = counted.map_err(|_| error::silent(&address))??;
        self.open = Some(open);
        Ok(count.into())
    }
}

impl std::fmt::Debug for Backlog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backlog")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
