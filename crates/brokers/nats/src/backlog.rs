//! The messages that wait for a consumer. Looks only, over a connection of its own.

use semel_core::{Code, Result};

use crate::consumer::info;
use crate::link::{Link, PATIENCE};
use crate::options::Options;

/// Counts what the stream has for a consumer and has not handed over, as often as it is asked.
pub struct Backlog {
    options: Options,
    /// The connection, as long as it works.
    link: Option<Link>,
}

impl Backlog {
    /// Returns a backlog that connects when it is first asked.
    pub const fn new(options: Options) -> Self {
        Self {
            options,
            link: None,
        }
    }

    /// Returns the count.
    ///
    /// # Errors
    ///
    /// The server is away, or the consumer is not there yet
    ///
    /// # Cancel safety
    ///
    /// Safe; the next call connects anew
    pub async fn count(&mut self) -> Result<u64> {
        let link = match self.link.take() {
            Some(link) if link.connection_error().is_none() => link,
            Some(_) | None => {
                let address = self.options.address()?;
                Link::open(&address, Code::SourceUnavailable, PATIENCE).await?
            }
        };
        let there = info(&link, &self.options).await?;
        self.link = Some(link);
        Ok(there.num_pending)
    }
}

impl std::fmt::Debug for Backlog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backlog")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
