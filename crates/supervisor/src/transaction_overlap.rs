//! Reports when a pipeline's transactions stop overlapping, and says when they overlap again.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::streamed::Monitor;
use semel_core::Error;
use tokio::time::sleep;

use crate::notice::{Notice, Reporter};

/// Watches a pipeline for as long as the future is polled.
pub(crate) async fn watch(
    pipeline: Box<str>,
    streamed: Arc<dyn Monitor>,
    reporter: Arc<dyn Reporter>,
) {
    let pipeline = &*pipeline;
    let mut is_hindered = false;
    loop {
        sleep(LOOK).await;
        match news(&mut is_hindered, streamed.hindrance()) {
            Some(News::Hindered(error)) => reporter.report(&Notice::TransactionsAlternate {
                pipeline,
                error: &error,
            }),
            Some(News::Over) => reporter.report(&Notice::TransactionsOverlap { pipeline }),
            None => {}
        }
    }
}

/// A change that was not reported yet.
#[derive(Debug)]
enum News {
    Hindered(Error),
    Over,
}

fn news(is_told: &mut bool, hindrance: Option<Error>) -> Option<News> {
    let is_hindered = hindrance.is_some();
    if std::mem::replace(is_told, is_hindered) == is_hindered {
        return None;
    }
    Some(hindrance.map_or(News::Over, News::Hindered))
}

const LOOK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use semel_core::ErrorKind;

    use super::*;

    #[test]
    fn a_hindrance_is_told_once_and_so_is_its_end() {
        let why = || Some(Error::new(ErrorKind::Unavailable, "grant Write"));
        let mut is_told = false;
        let mut told = |hindrance| news(&mut is_told, hindrance);
        assert!(told(None).is_none());
        let first = told(why());
        assert!(
            matches!(&first, Some(News::Hindered(it)) if it.to_string() == "grant Write"),
            "{first:?}"
        );
        assert!(told(why()).is_none());
        assert!(matches!(told(None), Some(News::Over)));
        assert!(told(None).is_none());
        assert!(matches!(told(why()), Some(News::Hindered(_))));
    }
}
