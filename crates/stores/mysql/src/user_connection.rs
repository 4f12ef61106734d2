//! Scripts on a user's own connection, over a driver other than ours.

use semel_core::Result;

use crate::answer::Cells;
use crate::driver::{Driver, Row};
use crate::error::{corrupt, unanswered, unrun};
use crate::run::Runs;
use crate::script::Script;

/// A connection of a user's, within a transaction of theirs, for the time of a call.
pub(crate) struct UserConnection<'d, D>(pub(crate) &'d mut D);

impl<D: Driver> Runs for UserConnection<'_, D> {
    type Row = Row;

    async fn rows(&mut self, script: &Script) -> Result<Vec<Vec<Row>>> {
        let text = std::str::from_utf8(&script.text).map_err(|_| corrupt("text"))?;
        let answers = self.0.query(text).await.map_err(unrun)?;
        if answers.len() == script.statements {
            Ok(answers)
        } else {
            Err(unanswered())
        }
    }
}

impl Cells for Row {
    fn cell(&self, column: usize) -> Result<Option<&[u8]>> {
        let cell = self.columns.get(column);
        Ok(cell.ok_or_else(|| corrupt("column"))?.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use mysql_async::ServerError;
    use semel_core::{Certainty, ClaimId, ClaimRequest, ErrorKind, Key, Scope};

    use super::*;
    use crate::InboxSteps;
    use crate::driver::Refused;
    use crate::error::{Failure, Why};

    struct Terse(usize);

    impl Driver for Terse {
        async fn query(&mut self, script: &str) -> std::result::Result<Vec<Vec<Row>>, Refused> {
            assert!(script.is_ascii(), "whatever the session's character set");
            Ok(vec![Vec::new(); self.0])
        }
    }

    #[test]
    fn a_refusal_means_what_it_means_on_our_own_connections() {
        for code in [
            1213, 1205, 1020, 1146, 1142, 1290, 1792, 1114, 1317, 1927, 1153, 1064,
        ] {
            let words = "The server's words";
            let theirs = unrun(Refused::Answered {
                code,
                message: words.into(),
                source: "theirs".into(),
            });
            let ours = Failure {
                at: 0,
                why: Why::Refused(ServerError {
                    code,
                    message: words.into(),
                    state: "HY000".into(),
                }),
            };
            let meaning = |error: &semel_core::Error| {
                let said = error.to_string();
                (
                    error.kind(),
                    error.code(),
                    error.certainty(),
                    error.advice(),
                    said,
                )
            };
            assert_eq!(meaning(&theirs), meaning(&ours.uncommitted()), "{code}");
        }
        let broken = unrun(Refused::Broken("theirs".into()));
        assert_eq!(
            (broken.kind(), broken.certainty()),
            (ErrorKind::Unavailable, Certainty::NotApplied)
        );
    }

    #[tokio::test]
    async fn a_driver_that_passes_less_or_more_on_is_not_believed() {
        let inbox = InboxSteps::with_prefix("semel_").expect("a prefix");
        let scope = Scope::new("", "payments").expect("a scope");
        let key = Key::parse("ä").expect("a key");
        let request = ClaimRequest::new(scope, key, ClaimId::from_u128(1));
        for count in [0, 1, 99] {
            let error = inbox.admit_on(&mut Terse(count), &request).await;
            let error = error.expect_err("no answer");
            assert_eq!(
                (error.kind(), error.certainty()),
                (ErrorKind::Unavailable, Certainty::NotApplied),
                "{error:?}"
            );
        }
    }
}
