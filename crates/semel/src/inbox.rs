//! Inboxes over the drivers that the stores use: one operation in your own transaction. The inboxes
//! over sqlx are in [`crate::sqlx`].

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::error::Error as StdError;

use semel_core::{Error, ErrorKind};

/// The meaning of a driver's refusal of a savepoint.
pub(crate) fn no_savepoint(error: impl StdError + Send + Sync + 'static) -> Error {
    let message = "the transaction takes no savepoint; roll back and begin again";
    Error::new(ErrorKind::Unavailable, message)
        .not_applied()
        .with_source(error)
}

/// Gives an inbox the methods by which its calls have spans.
macro_rules! watched {
    ($inbox:ident) => {
        impl $inbox {
            /// Returns the same inbox, whose calls of [`once`](Self::once) and [`once_of`](Self::once_of) have spans: if
            /// `observer` [wants them](crate::Observer::wants_spans), it is handed those of each call once that is
            /// answered, and no events. `applied` says that effect and record are in your transaction; the inbox does not
            /// see how that ends. The single steps have no spans.
            #[must_use]
            pub fn observer(mut self, observer: std::sync::Arc<dyn crate::Observer>) -> Self {
                self.watch = self.watch.observed_by(observer);
                self
            }

            /// Returns an inbox for the calls of one request, whose span becomes the parent of theirs and whose mark decides
            /// about sampling; as [`Declared::trace`](crate::Declared::trace) takes it.
            #[must_use]
            pub fn trace(&self, trace: impl Into<Option<crate::trace::TraceHeaders>>) -> Self {
                let mut inbox = self.clone();
                inbox.watch = inbox.watch.came_with(trace.into());
                inbox
            }
        }
    };
}
pub(crate) use watched;
