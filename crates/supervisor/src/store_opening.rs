//! Waits for a store on a server that is away, as a run does for the broker of a source.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::store;
use semel_config::{Accepted, StoreUrl};
use semel_core::port::store::Capabilities;
use semel_core::{Clock, Code, Error, ErrorKind, Result};
use semel_worker::run::Stores;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::notice::{Notice, Reporter};
use crate::status::Health;
use crate::window_guard::PROMPT;

/// An opened store that has answered.
pub(crate) struct Opened {
    pub(crate) stores: Stores,
    /// True if it was just created.
    pub(crate) is_new: bool,
    /// The formats between which it was brought forward with this opening.
    pub(crate) brought_forward: Option<(i64, i64)>,
    /// Its promises.
    pub(crate) capabilities: Capabilities,
}

/// Opens the store and asks what it promises. If its server is away, says so once and tries again until it is there; returns nothing if a
/// stop was asked for before that.
///
/// # Errors   those of [`store::open`], with the place: what is wrong, and on this machine what is away
pub(crate) async fn wait(
    url: &StoreUrl,
    accepted: Accepted,
    clock: Arc<dyn Clock>,
    reporter: &dyn Reporter,
    health: &Health,
    mut stop: watch::Receiver<bool>,
) -> Result<Option<Opened>> {
    let before = store::older_format(url).await;
    let mut away_since = None;
    loop {
        let opening = open(url, accepted, &clock, before);
        tokio::pin!(opening);
        let opened = loop {
            let is_to_tell = url.is_server() && away_since.is_none();
            tokio::select! {
                biased;
                _ = stop.wait_for(|is_asked| *is_asked) => return Ok(None),
                opened = &mut opening => break opened,
                () = sleep(PROMPT), if is_to_tell => {
                    away_since = Some(Instant::now());
                    let silent = format!("no answer within {} s", PROMPT.as_secs());
                    let silent = Error::new(ErrorKind::Unavailable, silent)
                        .with_code(Code::StoreUnavailable);
                    health.store_failed(&silent);
                    report(url, silent, reporter);
                }
            }
        };
        match opened {
            Ok(opened) => {
                if let Some(since) = away_since {
                    let lasted = since.elapsed();
                    reporter.report(&Notice::StoreBack { lasted });
                }
                return Ok(Some(opened));
            }
            Err(error) if url.is_server() && is_away(&error) => {
                health.store_failed(&error);
                if away_since.is_none() {
                    away_since = Some(Instant::now());
                    report(url, error, reporter);
                }
            }
            Err(error) => return Err(store::at_store(url, error)),
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|is_asked| *is_asked) => return Ok(None),
            () = sleep(RETRY) => {}
        }
    }
}

fn report(url: &StoreUrl, error: Error, reporter: &dyn Reporter) {
    let error = store::at_store(url, error);
    reporter.report(&Notice::StoreAway(&error));
}

/// Looks first, so that it is known whether the store existed before, and asks it last: its server may end between its
/// opening and its first answer.
async fn open(
    url: &StoreUrl,
    accepted: Accepted,
    clock: &Arc<dyn Clock>,
    before: Option<i64>,
) -> Result<Opened> {
    let was_there = match store::exists(url).await {
        Ok(was_there) => was_there,
        Err(error) if url.is_server() && is_away(&error) => return Err(error),
        // Opening it gives a better error.
        Err(_) => true,
    };
    let stores = store::open(url, accepted, Arc::clone(clock)).await?;
    Ok(Opened {
        brought_forward: store::brought_forward(url, before).await?,
        capabilities: stores.preflight().await?,
        stores,
        is_new: !was_there || *url == StoreUrl::Memory,
    })
}

/// Tells whether the store may become fit without any action at this worker: its server is away, or has a store
/// that `semel store migrate` brings forward. Every other error is wrong now and stays so: tables that are
/// foreign or newer, and a place that takes no writes or has no room, which a person should see before anything
/// begins.
fn is_away(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Timeout => {
            matches!(error.code(), Code::StoreUnavailable | Code::Timeout)
        }
        ErrorKind::ClaimLost
        | ErrorKind::Conflict
        | ErrorKind::Corrupt
        | ErrorKind::Internal
        | ErrorKind::InvalidConfig
        | ErrorKind::InvalidInput
        | ErrorKind::Poisoned
        | ErrorKind::Throttled
        | ErrorKind::Unsupported => false,
    }
}

/// The time between two tries.
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_by_itself_is_waited_for() {
        let unavailable = |code| Error::new(ErrorKind::Unavailable, "words").with_code(code);
        assert!(is_away(&unavailable(Code::StoreUnavailable)));
        assert!(is_away(&Error::new(ErrorKind::Timeout, "no answer")));
        for code in [
            Code::StoreForeign,
            Code::StoreNewer,
            Code::StoreReadOnly,
            Code::StoreFull,
        ] {
            assert!(!is_away(&unavailable(code)), "{code}");
        }
        let refused = Error::new(ErrorKind::InvalidConfig, "refused login");
        assert!(!is_away(&refused.with_code(Code::StoreUnavailable)));
    }
}
