//! Writes at the end of a transaction: statements in scripts that fit into packets, each with a condition on its
//! result.

use semel_core::ledger::{EntityEntry, Ledger};
use semel_core::{Audited, Error, ErrorKind, OpId, Scope};

use super::{CHUNK, entity_columns, push_entity};
use crate::answer::{Set, only, some_number};
use crate::error::{DUPLICATE, Failure};
use crate::pool::PooledConnection;
use crate::row::{push_assignments, push_key, push_optional, push_row};
use crate::script::{Literal, Script};
use crate::session::Session;
use crate::sql::Text;
use crate::transaction::{Stop, commit, committed_or};

/// Statements that write, cut into scripts that fit into packets, each with a condition on its result.
pub(crate) struct Writes<'s> {
    session: &'s Session,
    most_bytes: usize,
    scripts: Vec<(Script, Vec<Check>)>,
}

/// A condition on a result; where it fails, the transaction begins anew.
enum Check {
    /// The statement at this place has changed so many rows.
    Changed(usize, u64),
    /// The statement at this place has found nothing.
    Nothing(usize),
    /// The number found at this place is below this token.
    Below(usize, u64),
}

impl<'s> Writes<'s> {
    pub(crate) fn new(session: &'s Session, most_bytes: usize) -> Self {
        Self {
            session,
            most_bytes,
            scripts: Vec::new(),
        }
    }

    pub(super) fn add_records(&mut self, ledger: &Ledger, highest: u64) {
        let session = self.session;
        let texts = &session.texts;
        let mut rows = Rows::default();
        let (mut least, mut removes) = (u64::MAX, false);
        let mut changes: Vec<_> = ledger.changes().collect();
        changes.sort_unstable_by_key(|entry| entry.id);
        for entry in changes {
            match (entry.revision, &entry.record) {
                (Some(revision), Some(record)) => {
                    let mut set = Literal::default();
                    push_assignments(&mut set, record);
                    let id = Literal::bytes(entry.id.as_bytes());
                    let place = self.add(&texts.update, &[&set, &id, &Literal::number(revision)]);
                    self.check(Check::Changed(place, 1));
                }
                (None, Some(record)) => {
                    least = least.min(record.token.get());
                    let push =
                        |out: &mut Literal| push_row(out, &entry.id, &entry.operation, record);
                    rows.push(push, |rows, count| self.add_rows(rows, count));
                }
                (Some(revision), None) => {
                    removes = true;
                    let id = Literal::bytes(entry.id.as_bytes());
                    let place = self.add(&texts.delete, &[&id, &Literal::number(revision)]);
                    self.check(Check::Changed(place, 1));
                }
                (None, None) => {}
            }
        }
        rows.end(|rows, count| self.add_rows(rows, count));
        if removes {
            let token = Literal::number(highest);
            self.add(&texts.floor, &[&token, &token]);
        }
        if least < u64::MAX {
            // Read after the insertion: any record that was there before is gone, and its token shows here.
            let floor = Literal::bytes(b"floor");
            let place = self.add(&texts.meta_get, &[&floor]);
            self.check(Check::Below(place, least));
        }
    }

    pub(super) fn add_entity(&mut self, it: &EntityEntry) {
        let session = self.session;
        let texts = &session.texts;
        if it.is_stored {
            let [applied, holder, until] = entity_columns(&it.record);
            let id = Literal::bytes(it.id.as_bytes());
            self.add(&texts.entity_update, &[&applied, &holder, &until, &id]);
        } else {
            let mut row = Literal::default();
            push_entity(&mut row, &it.scope, &it.entity, &it.record);
            let place = self.add(&texts.entity_insert, &[&row]);
            self.check(Check::Changed(place, 1));
        }
    }

    /// Adds rows of records that are not there yet.
    pub(crate) fn add_rows(&mut self, rows: &Literal, count: u64) {
        let session = self.session;
        let place = self.add(&session.texts.insert, &[rows]);
        self.check(Check::Changed(place, count));
    }

    /// Adds entries to the audit trail.
    pub(crate) fn add_audited(&mut self, entries: &[Audited]) {
        let session = self.session;
        let texts = &session.texts;
        let mut rows = Rows::default();
        for entry in entries {
            rows.push(
                |out| push_audited(out, entry),
                |rows, _| {
                    self.add(&texts.audit_add, &[rows]);
                },
            );
        }
        rows.end(|rows, _| {
            self.add(&texts.audit_add, &[rows]);
        });
    }

    /// Adds checks that records decided on as absent are still absent. There was no row to lock, and others may have
    /// come while this transaction waited for its locks.
    pub(super) fn add_probes(&mut self, ledger: &Ledger) {
        let session = self.session;
        let absent: Vec<_> = ledger.absent().collect();
        for ids in absent.chunks(CHUNK) {
            let ids = Literal::list(ids.iter().map(OpId::as_bytes));
            let place = self.add(&session.texts.probe, &[&ids]);
            self.check(Check::Nothing(place));
        }
    }

    /// Adds a statement; returns its place in the last script.
    pub(crate) fn add(&mut self, text: &Text, values: &[&Literal]) -> usize {
        let mut script = Script::default();
        script.add(text, values);
        self.add_script(&script)
    }

    /// Adds the statements of a script; returns the place of the first in the last script.
    pub(crate) fn add_script(&mut self, some: &Script) -> usize {
        let is_full = |(script, _): &(Script, Vec<Check>)| {
            script.text.len() + some.text.len() > self.most_bytes / 2
        };
        if self.scripts.last().is_none_or(is_full) {
            self.scripts.push(Default::default());
        }
        let Some((script, _)) = self.scripts.last_mut() else {
            return 0;
        };
        let place = script.statements;
        script.append(some);
        place
    }

    fn check(&mut self, check: Check) {
        if let Some((_, checks)) = self.scripts.last_mut() {
            checks.push(check);
        }
    }

    /// Returns the number of scripts; the last statement that was added is in the last of them.
    pub(crate) fn scripts(&self) -> usize {
        self.scripts.len()
    }

    /// Runs everything and compares; returns the results of each script.
    pub(crate) async fn run(
        self,
        connection: &mut PooledConnection,
    ) -> Result<Vec<Vec<Set>>, Stop> {
        let mut results = Vec::with_capacity(self.scripts.len());
        for (script, checks) in self.scripts {
            let sets = connection.run(&script).await.map_err(again_if_duplicate)?;
            compare(&sets, checks)?;
            results.push(sets);
        }
        Ok(results)
    }

    /// Runs everything, compares and commits; all at once where no answer is waited for.
    pub(crate) async fn commit(mut self, connection: &mut PooledConnection) -> Result<(), Stop> {
        let session = self.session;
        let mut last = self.scripts.pop().unwrap_or_default();
        self.run(connection).await?;
        let (script, checks) = &mut last;
        // A row that is locked and a key that is not there yet are changed, or the statement fails.
        let is_sure = |check: &Check| matches!(check, Check::Changed(..));
        if !checks.iter().all(is_sure) {
            let sets = connection.run(script).await.map_err(again_if_duplicate)?;
            compare(&sets, std::mem::take(checks))?;
            return commit(session, connection).await;
        }
        let commit = script.add(&session.texts.commit, &[]);
        let ran = match connection.run(script).await {
            Err(failure) if failure.refusal().is_some() && failure.at < commit => {
                return Err(again_if_duplicate(failure));
            }
            ran => ran,
        };
        let sets = committed_or(ran, connection)?;
        compare(&sets, std::mem::take(checks)).map_err(|_| {
            let message = "a row that was locked could not be written";
            Stop::Failed(Error::new(ErrorKind::Internal, message))
        })
    }
}

fn compare(sets: &[Set], checks: Vec<Check>) -> Result<(), Stop> {
    for check in checks {
        let holds = match check {
            Check::Changed(place, count) => sets[place].affected == count,
            Check::Nothing(place) => sets[place].rows.is_empty(),
            Check::Below(place, token) => some_number(only(&sets[place])?, 0)? < token,
        };
        if !holds {
            return Err(Stop::Again);
        }
    }
    Ok(())
}

/// Rows of one statement, which is added whenever enough have come together.
#[derive(Default)]
pub(crate) struct Rows {
    rows: Literal,
    count: u64,
}

impl Rows {
    pub(crate) fn push(
        &mut self,
        push: impl FnOnce(&mut Literal),
        add: impl FnOnce(&Literal, u64),
    ) {
        push(&mut self.rows);
        self.count += 1;
        if self.rows.len() >= ROWS_BYTES {
            self.end(add);
        }
    }

    pub(crate) fn end(&mut self, add: impl FnOnce(&Literal, u64)) {
        let Self { rows, count } = std::mem::take(self);
        if count > 0 {
            add(&rows, count);
        }
    }
}

/// Repeats the transaction where another session inserted a row that had been found absent.
fn again_if_duplicate(failure: Failure) -> Stop {
    match failure.refusal() {
        Some(error) if error.code == DUPLICATE => Stop::Again,
        Some(_) | None => Stop::Server(failure),
    }
}

fn push_audited(out: &mut Literal, entry: &Audited) {
    out.comma();
    out.push_code("(");
    out.push_number(entry.at.as_millis());
    let scope = entry.scope.as_ref();
    for text in [
        Some(&*entry.note.by),
        Some(&*entry.note.reason),
        Some(&*entry.action),
        scope.map(Scope::tenant),
        scope.map(Scope::operation),
    ] {
        out.push_code(",");
        push_optional(out, text);
    }
    out.push_code(",");
    push_key(out, entry.key.as_ref());
    for text in [&*entry.before, &*entry.after] {
        out.push_code(",");
        out.push_text(text);
    }
    out.push_code(")");
}

/// Bytes of rows in a statement before the next one begins.
const ROWS_BYTES: usize = 1 << 20;
