//! The longest wait for one answer.

use std::time::Duration;

use semel_core::units::duration_text;
use semel_core::{Code, Error, ErrorKind, Result};

/// The longest wait for one answer of a server; without one, that of its driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience(pub Option<Duration>);

impl Patience {
    /// Waits for an answer.
    ///
    /// # Errors
    ///
    /// Those of `answer`; `Unavailable` with this code if there is none in time
    pub(crate) async fn within<T>(
        self,
        (who, code): (&str, Code),
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(patience) = self.0 else {
            return answer.await;
        };
        let answered = tokio::time::timeout(patience, answer).await;
        answered.unwrap_or_else(|_| {
            let why = format!("{who} gave no answer within {}", duration_text(patience));
            let error = Error::new(ErrorKind::Unavailable, why).with_code(code);
            Err(error.not_applied())
        })
    }
}

/// The store, and the code of its silence.
pub(crate) const STORE: (&str, Code) = ("the store", Code::StoreUnavailable);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_answer_is_not_waited_for() {
        for patience in [None, Some(Duration::from_secs(60))] {
            let answered = Patience(patience).within(STORE, async { Ok(7) }).await;
            assert_eq!(answered.expect("an answer"), 7);
        }
        let patience = Patience(Some(Duration::from_millis(1)));
        let late = patience.within(STORE, std::future::pending::<Result<()>>());
        let error = late.await.expect_err("no answer");
        assert_eq!(error.code(), Code::StoreUnavailable);
        assert_eq!(error.to_string(), "the store gave no answer within 1ms");
    }
}
