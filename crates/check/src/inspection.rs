//! The store, looked at without changing it.

use std::sync::Arc;

use semel_backends::store::{self, Formats, Inspected};
use semel_config::{Accepted, Settings, StoreUrl};
use semel_core::port::transactional::Statements;
use semel_core::{AnyStore, Clock, Code, Error, ErrorKind, Result};
use semel_operate::check::Inspection;
use semel_operate::shell::quoted;

use crate::own_thread::apart;

/// Inspects the store, and refuses one that only another version can use, or that must be migrated first.
///
/// # Errors   `store-newer`; `store-unavailable` with the command; those of the store
pub(crate) async fn inspect(
    settings: &Settings,
    (opened, unfinished): (Option<&AnyStore>, &Arc<()>),
    clock: Arc<dyn Clock>,
    statements: &[Statements],
) -> Result<Inspection> {
    let url = &settings.store;
    let asked = (url.clone(), settings.accepted, statements.to_vec());
    let looking = look(asked, opened.cloned(), clock);
    let inspected = apart(url, unfinished, looking).await?;
    let refused = |message| Error::new(ErrorKind::Unavailable, message).not_applied();
    match inspected.formats {
        Some(Formats {
            stored: Some(stored),
            newest,
        }) if stored > newest => Err(refused(format!(
            "the store has format {stored}, and this version knows {newest}; use a newer version"
        ))
        .with_code(Code::StoreNewer)),
        Some(Formats {
            stored: Some(stored),
            newest,
        }) if stored < newest => Err(refused(format!(
            "the store has format {stored}, and this version works with {newest}; bring it forward: semel store \
             migrate --store {}",
            quoted(&url.to_string())
        ))),
        Some(_) | None => Ok(inspected.inspection),
    }
}

/// Looks at a store, as this process has it open if it does.
async fn look(
    (url, accepted, statements): (StoreUrl, Accepted, Vec<Statements>),
    opened: Option<AnyStore>,
    clock: Arc<dyn Clock>,
) -> Result<Inspected> {
    match opened {
        Some(store) => store::inspect_opened(&store, &url, accepted, clock, &statements).await,
        None => store::inspect(&url, accepted, clock, &statements).await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::Duration;

    use futures_util::FutureExt;
    use semel_backends::BACKENDS;
    use semel_config::Overrides;
    use semel_engine::system::SystemClock;
    use tokio::runtime::Builder;
    use tokio::task::spawn_blocking;
    use tokio::time::sleep;

    use super::*;

    /// On a disk that does not answer, each look would keep one thread more.
    #[test]
    fn a_look_at_a_file_is_known_until_its_end_also_if_a_worker_has_it_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "[store]\nurl = \"sqlite:{}\"\n[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n\
             effect = {{ kind = \"stdout\" }}\n",
            folder.path().join("s.db").display()
        );
        let (none, overrides) = (std::iter::empty(), Overrides::default());
        let settings = Settings::of("semel.toml", &text, none, &overrides, BACKENDS);
        let settings = settings.expect("sound settings");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let mut threads = Builder::new_current_thread();
        let runtime = threads.enable_all().max_blocking_threads(THREADS).build();
        runtime.expect("a runtime").block_on(async {
            let opening = store::open_for_filling(&settings.store, Arc::clone(&clock)).await;
            let lent = opening.expect("a store").store;
            for opened in [None, Some(&lent)] {
                // No thread is free: nothing has ended before it is counted.
                let gate = Arc::new(Barrier::new(THREADS + 1));
                for _ in 0..THREADS {
                    let gate = Arc::clone(&gate);
                    drop(spawn_blocking(move || gate.wait()));
                }
                let unfinished = Arc::new(());
                let means = (opened, &unfinished);
                let looking = inspect(&settings, means, Arc::clone(&clock), &[]);
                assert!(looking.now_or_never().is_none(), "it waits for a thread");
                let is_lent = opened.is_some();
                assert_eq!(Arc::strong_count(&unfinished), 2, "lent: {is_lent}");
                gate.wait();
                while Arc::strong_count(&unfinished) > 1 {
                    sleep(Duration::from_millis(1)).await;
                }
            }
        });
    }

    /// One for the look, and one for what it waits for.
    const THREADS: usize = 2;
}
