//! Resolutions of an operation in doubt by a person or a program.

use semel_core::decide::{Directed, Directive, Order, Verdict};
use semel_core::{Note, Operation, Store, StoreExt};

use super::declared::Declared;
use super::error::Error;
use super::key::ToKey;
use super::outcome::Remember;
use super::pending::Pending;

impl<S: Store + Clone> Declared<S> {
    /// Resolves a key in doubt: its effect happened, with this outcome, which duplicates get from
    /// now on. `note` goes into the audit trail.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Store`], [`Error::Closed`]; an operation that is not in doubt
    /// is an answer, [`Directed::Refused`]
    ///
    /// # Cancel safety   safe to repeat
    pub fn resolve_applied<T: Remember>(
        &self,
        key: impl ToKey,
        value: &T,
        note: Note,
    ) -> Pending<Result<Directed, Error>> {
        let verdict = Verdict::Applied {
            outcome: value.to_outcome(self.settings().outcome_limit_bytes),
            window: self.settings().window,
        };
        self.resolve(self.operation(key), verdict, note)
    }

    /// Resolves a key in doubt: its effect did not happen, and the next call runs it. Refused until
    /// the doubt is older than the effect's time limit and lease, since an old call may still land.
    ///
    /// # Errors
    ///
    /// as [`resolve_applied`](Self::resolve_applied)
    ///
    /// # Cancel safety   safe to repeat
    pub fn resolve_not_applied(
        &self,
        key: impl ToKey,
        note: Note,
    ) -> Pending<Result<Directed, Error>> {
        let settings = self.settings();
        let quiet = settings.timeout.unwrap_or_default() + settings.lease;
        self.resolve(
            self.operation(key),
            Verdict::NotApplied { quiet, asked: None },
            note,
        )
    }

    /// Gives up a key in doubt that will never be found out about. It is dead from now on.
    ///
    /// # Errors
    ///
    /// as [`resolve_applied`](Self::resolve_applied)
    ///
    /// # Cancel safety   safe to repeat
    pub fn abandon(&self, key: impl ToKey, note: Note) -> Pending<Result<Directed, Error>> {
        let window = self.settings().window;
        self.resolve(self.operation(key), Verdict::Abandon { window }, note)
    }

    fn resolve(
        &self,
        operation: Result<Operation, Error>,
        verdict: Verdict,
        note: Note,
    ) -> Pending<Result<Directed, Error>> {
        let store = self.shared.store();
        Pending::new(async move {
            let operation = operation?;
            let operation_id = operation.id();
            let directive = Directive {
                operation,
                order: Order::Resolve(verdict),
                note: Some(note),
            };
            let failed = |source| Error::Store {
                operation_id,
                source,
            };
            store?.operate_one(directive).await.map_err(failed)
        })
    }
}
