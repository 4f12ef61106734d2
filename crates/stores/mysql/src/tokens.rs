//! Fencing tokens: drawn in blocks by the server's own counter, in the statement order of the server.
//!
//! A block is a row whose number the server counts up by itself, outside of transactions: no transaction waits for
//! another, a rollback skips it, and a crash never takes the counter back behind a committed number. A transaction that
//! draws a block commits the row together with the claims that use it, so that a replica that takes over counts on from
//! there.
//!
//! A drawn token may be overtaken while its claim waits for a lock. So no claim may use one that is not
//! above the token of the record that it replaces, or of a record of the same key that was removed
//! meanwhile: the *floor* is the highest token that any removed record had.

use mysql_async::Row;
use semel_core::Result;

use crate::answer::{Set, only, some_number};
use crate::script::{Literal, Script};
use crate::sql::Texts;

/// Adds the drawing of `count` tokens; `@semel.token` is the first of them, or null for none.
pub(crate) fn draw(texts: &Texts, script: &mut Script, count: usize) {
    if count == 0 {
        script.add(&texts.token_none, &[]);
        return;
    }
    let mut rows = Literal::default();
    let mut left = count as u64;
    while left > 0 {
        let used = left.min(BLOCK);
        rows.comma();
        rows.push_code("(");
        rows.push_number(used);
        rows.push_code(")");
        left -= used;
    }
    script.add(&texts.token_draw, &[&rows]);
}

/// Adds a statement after which no token up to `token` is drawn.
pub(crate) fn raise(texts: &Texts, script: &mut Script, token: u64) {
    let used = Literal::number(token % BLOCK + 1);
    let block = Literal::number(token / BLOCK);
    let values: [&Literal; 3] = [&block, &used, &used];
    script.add(&texts.token_above, &values);
}

/// Adds the query for the last token that was given out, perhaps locking it.
pub(crate) fn ask_last(texts: &Texts, script: &mut Script, is_locked: bool) -> usize {
    let lock = Literal::code(if is_locked { "FOR UPDATE" } else { "" });
    script.add(&texts.token_last, &[&lock])
}

/// Reads the last token that was given out.
pub(crate) fn last(set: &Set) -> Result<u64> {
    let row: &Row = only(set)?;
    let (block, used) = (some_number(row, 0)?, some_number(row, 1)?);
    Ok((block * BLOCK + used).saturating_sub(1))
}

/// Adds, now and then, the removal of blocks that are no longer needed, behind the commit of a draw.
pub(crate) fn trim(texts: &Texts, script: &mut Script, token: u64) {
    let behind = (token / BLOCK).saturating_sub(KEPT);
    script.add(&texts.token_trim, &[&Literal::number(behind)]);
}

/// Tokens of a block. A table's rows are fewer by as much, and a batch mostly fits into one.
const BLOCK: u64 = 1_024;
/// Blocks that stay. Only the newest is ever looked at.
const KEPT: u64 = 1_000;
