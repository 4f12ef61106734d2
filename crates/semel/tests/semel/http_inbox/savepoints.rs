//! Handlers on sqlx that go in and out of savepoints before they commit.

/// Ends the handler whose work is done in `$tx`, and commits it with an answer. A savepoint books another charge, which
/// is there in the end if anything of the savepoint is committed.
macro_rules! end_on_sqlx {
    ($tx:ident, $insert:expr, $inbox:ident, $hold:ident) => {{
        if matches!($hold, Hold::UndoesSavepoint | Hold::CommitsSavepoint) {
            let mut savepoint = $tx.begin().await.map_err(told)?;
            let insert = sqlx::raw_sql(AssertSqlSafe($insert));
            insert.execute(&mut *savepoint).await.map_err(told)?;
            if $hold == Hold::UndoesSavepoint {
                savepoint.rollback().await.map_err(told)?;
            } else {
                let refused = $inbox.commit(savepoint, ANSWER).await;
                let refused = refused.expect_err("no end of a transaction");
                assert_eq!(refused.kind(), semel::ErrorKind::InvalidInput);
                assert!(refused.to_string().contains("is a savepoint"), "{refused}");
            }
        }
        if $hold == Hold::RollsBack {
            $tx.rollback().await.map_err(told)?;
            return Err(DECLINED.to_owned());
        }
        hold_or_fail($hold).await?;
        $inbox.commit($tx, ANSWER).await.map_err(told)
    }};
}

pub(super) use end_on_sqlx;
