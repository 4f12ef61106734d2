//! Notices changes of a file of tokens while a server runs.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Error, Result};
use tokio::sync::watch::Sender;
use tokio::time::sleep;

use super::{TokenFile, Tokens};

/// A notice about the file of tokens.
#[derive(Clone, Copy, Debug)]
pub enum TokenNotice<'a> {
    /// The file cannot be read or is damaged; the tokens that were known still are.
    Unreadable(&'a Error),
    /// The file was changed, and has this many tokens now.
    Changed {
        /// The number of tokens.
        count: usize,
    },
}

/// Reads the file again and again, and hands on its tokens when they change.
///
/// # Cost
///
/// Reads the file once a second
///
/// # Cancel safety
///
/// Safe.
pub async fn watch(
    file: TokenFile,
    known: Sender<Arc<Tokens>>,
    report: impl Fn(TokenNotice<'_>) + Send,
) {
    let mut last_failure: Option<String> = None;
    loop {
        sleep(LOOK_EVERY).await;
        let looked = file.clone();
        let read = tokio::task::spawn_blocking(move || looked.read()).await;
        // The task does not panic; if it did, the next look would tell.
        let Ok(read) = read else { continue };
        let failure = take(read, &known, &report, last_failure.as_deref());
        last_failure = failure;
    }
}

/// Takes what was read; returns the failure, which is reported once.
fn take(
    read: Result<Tokens>,
    known: &Sender<Arc<Tokens>>,
    report: &impl Fn(TokenNotice<'_>),
    last_failure: Option<&str>,
) -> Option<String> {
    match read {
        Ok(tokens) => {
            let count = tokens.count();
            let is_changed = known.send_if_modified(|known| {
                let is_changed = **known != tokens;
                if is_changed {
                    *known = Arc::new(tokens);
                }
                is_changed
            });
            if is_changed || last_failure.is_some() {
                report(TokenNotice::Changed { count });
            }
            None
        }
        Err(error) => {
            let failure = error.to_string();
            if last_failure != Some(&failure) {
                report(TokenNotice::Unreadable(&error));
            }
            Some(failure)
        }
    }
}

/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
