//! The longest waits of a check.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::units::duration_text;
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::time::{Instant, timeout};

/// The longest waits of a check: for one answer of a server, and for all of them. Without bounds, those of the drivers.
/// Clones share what they know of servers that are silent: none of those is waited for twice.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    answer: Option<Duration>,
    /// The time for all answers, and its end.
    whole: Option<(Duration, Instant)>,
    /// The servers that gave no answer in time.
    silent: Arc<Mutex<BTreeSet<String>>>,
}

/// Somebody who is asked: in words, with the code of its silence.
pub(crate) type Who<'a> = (&'a str, Code);

impl Patience {
    /// Waits for each answer for so long, and for all of them for so long from now on.
    pub fn new(answer: Duration, whole: Duration) -> Self {
        Self {
            answer: Some(answer),
            whole: Some((whole, Instant::now() + whole)),
            silent: Arc::default(),
        }
    }

    /// The same with this longest wait for one answer, if there is none.
    pub(crate) fn or(&self, answer: Duration) -> Self {
        Self {
            answer: self.answer.or(Some(answer)),
            ..self.clone()
        }
    }

    /// Waits for an answer.
    ///
    /// # Errors
    ///
    /// Those of `answer`; `Unavailable` with this code if there is none in time
    pub(crate) async fn within<T>(
        &self,
        who: Who<'_>,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.of_server(None, who, answer).await
    }

    /// Waits for an answer of a server that others may ask as well. Once it gave none in time, it is not waited for again.
    ///
    /// # Errors
    ///
    /// Those of [`Patience::within`]
    pub(crate) async fn of_server<T>(
        &self,
        server: Option<String>,
        (who, code): Who<'_>,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let failed = |why| {
            let error = Error::new(ErrorKind::Unavailable, why).with_code(code);
            Err(error.not_applied())
        };
        let Some(patience) = self.answer else {
            return answer.await;
        };
        if server.as_ref().is_some_and(|it| self.silent().contains(it)) {
            let patience = duration_text(patience);
            return failed(format!(
                "{who} is at a server that gave no answer within {patience}, and was not asked again"
            ));
        }
        let Some(left) = self.left(patience) else {
            let whole = self.whole.map_or(patience, |(whole, _)| whole);
            let whole = duration_text(whole);
            return failed(format!(
                "{who} was not asked: others took the {whole} that a check may take"
            ));
        };
        if let Ok(answered) = timeout(left, answer).await {
            return answered;
        }
        if left == patience {
            self.silent().extend(server);
        }
        failed(format!(
            "{who} gave no answer within {}",
            duration_text(left)
        ))
    }

    /// The time for an answer that takes `most` at most; none if all of it is over.
    pub(crate) fn left(&self, most: Duration) -> Option<Duration> {
        let Some((_, end)) = self.whole else {
            return Some(most);
        };
        // What is told is a number of milliseconds.
        let left = end.saturating_duration_since(Instant::now());
        let left = Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        (!left.is_zero()).then(|| left.min(most))
    }

    fn silent(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store, and the code of its silence.
pub(crate) const STORE: Who<'_> = ("the store", Code::StoreUnavailable);

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const ANSWER: Duration = Duration::from_secs(5);
    const WHOLE: Duration = Duration::from_secs(20);
    /// An answer, or none ever.
    type Answer = std::pin::Pin<Box<dyn Future<Output = Result<u8>>>>;

    const BROKER: Who<'_> = ("the broker", Code::SourceUnavailable);

    #[tokio::test]
    async fn an_answer_in_time_is_that_answer() {
        for patience in [Patience::default(), Patience::new(ANSWER, WHOLE)] {
            let answered = patience.within(STORE, async { Ok(7) }).await;
            assert_eq!(answered.expect("an answer"), 7);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_answer_is_not_waited_for() {
        let patience = Patience::new(ANSWER, WHOLE);
        let late = patience.within(STORE, pending::<Result<()>>());
        let error = late.await.expect_err("no answer");
        assert_eq!(error.code(), Code::StoreUnavailable);
        assert_eq!(error.to_string(), "the store gave no answer within 5s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_silent_is_waited_for_once() {
        let patience = Patience::new(ANSWER, WHOLE);
        let begun = Instant::now();
        let ask = |server: &str, answer: Answer| {
            let (patience, server) = (patience.clone(), server.to_owned());
            async move {
                let silent = patience.of_server(Some(server), BROKER, answer);
                silent.await.map_err(|it| it.to_string())
            }
        };
        let silence = || Box::pin(pending::<Result<u8>>()) as Answer;
        let answer = || Box::pin(async { Ok::<u8, Error>(7) }) as Answer;
        let first = ask("kafka dead:9092", silence()).await;
        assert_eq!(first, Err("the broker gave no answer within 5s".to_owned()));
        let again = ask("kafka dead:9092", answer()).await;
        let told =
            "the broker is at a server that gave no answer within 5s, and was not asked again";
        assert_eq!(again, Err(told.to_owned()));
        assert_eq!(begun.elapsed(), ANSWER, "nobody waited for it");
        assert_eq!(ask("kafka other:9092", answer()).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn all_silent_servers_together_take_no_longer_than_a_check_may() {
        let patience = Patience::new(ANSWER, WHOLE);
        let begun = Instant::now();
        let mut said = Vec::new();
        for server in 0..6 {
            let server = Some(format!("kafka {server}:9092"));
            let silent = patience.of_server(server, BROKER, pending::<Result<()>>());
            said.push(silent.await.expect_err("no answer").to_string());
        }
        assert_eq!(begun.elapsed(), WHOLE);
        let told = "the broker was not asked: others took the 20s that a check may take";
        assert_eq!(said[3], "the broker gave no answer within 5s");
        assert_eq!(said[4..], [told, told]);
    }
}
