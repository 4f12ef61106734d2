//! The laws of the outbox port, over a real database: `semel_conformance::outbox_laws!(Shop)`.

pub mod laws;
pub mod readers;

use std::future::Future;
use std::time::Duration;

use semel_core::outbox::{OutboxId, OutboxMessage};
use semel_core::port::outbox::operations::OutboxOperations;
use semel_core::port::outbox::{OutboxContents, OutboxStore};

use crate::check::run_unnamed;

/// A database under test: fresh and empty tables of an outbox, and transactions that write them.
pub trait OutboxSubject: Sized + Send + Sync + 'static {
    /// The outbox.
    type Outbox: OutboxStore + OutboxOperations;

    /// True if transactions write messages without an order key at the same time.
    const WRITES_TOGETHER: bool = true;

    /// Makes the tables.
    fn open() -> impl Future<Output = Self> + Send;

    /// Opens the outbox as another process does.
    fn outbox(&self) -> impl Future<Output = Self::Outbox> + Send;

    /// Begins a transaction on a connection of its own, writes these in their order, waits for `ending`, and then commits
    /// or rolls back as it says. Waits as long as another transaction keeps it from writing, without holding up others,
    /// and repeats what the database wants repeated. Returns the ids.
    fn transact(
        &self,
        messages: Vec<OutboxMessage>,
        ending: impl Future<Output = Ending> + Send + 'static,
    ) -> impl Future<Output = Vec<OutboxId>> + Send + 'static;

    /// Alters the tables as time or a person does.
    fn alter(&self, change: Change) -> impl Future<Output = ()> + Send;

    /// Reads the dead messages: the number of tries that count, and the reason.
    fn dead(&self) -> impl Future<Output = Vec<(i64, String)>> + Send;

    /// Asks an outbox for its contents.
    fn contents(outbox: &Self::Outbox, stream: &str)
    -> impl Future<Output = OutboxContents> + Send;
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is committed.
    Commit,
    /// It is undone.
    Rollback,
}

/// A change of the tables that no call of the port makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The leases of a process and its presence have run out.
    RunOut {
        /// The process.
        process: &'static str,
    },
    /// Kept messages were published so much earlier.
    PublishedEarlier(Duration),
    /// A person lets the relay try what is dead once more, as the book says.
    TryAgain,
}

/// Runs `case` in fresh tables of `S`.
///
/// # Panics
///
/// When the case fails.
pub fn check<S, F>(case: impl FnOnce(S) -> F + Send + 'static)
where
    S: OutboxSubject,
    F: Future<Output = ()> + Send + 'static,
{
    run_unnamed(Box::pin(async move { case(S::open().await).await }));
}

/// Expands to every law of an outbox, a test each.
#[macro_export]
macro_rules! outbox_laws {
    ($subject:ident) => {
        mod outbox_laws {
            use super::$subject as Tested;
            $crate::__outbox_tests! { Tested
                a_message_is_seen_if_its_transaction_commits;
                what_is_written_is_what_is_read;
                a_transaction_that_commits_late_is_not_missed;
                messages_of_an_order_key_are_in_order_of_insertion_and_then_of_commit;
                writers_of_two_order_keys_in_two_orders_get_through;
                what_was_put_off_or_is_dead_holds_up_its_order_key_and_no_other;
                a_message_that_is_put_off_comes_back_in_its_place;
                a_batch_ends_with_the_message_that_fills_its_bytes;
                two_processes_share_the_partitions_and_one_that_is_fenced_changes_nothing;
                a_process_that_renews_its_leases_is_there_for_the_others;
                a_stream_has_one_relay_and_that_one_sink;
                streams_are_apart;
                published_messages_are_kept_for_a_while_if_that_is_wanted;
                a_commit_is_noticed;
                dead_messages_are_listed_page_by_page_and_shown_whole;
                a_dead_message_that_is_tried_again_is_in_its_place;
                a_dead_message_that_is_dropped_lets_those_behind_it_go;
                what_is_not_published_is_counted;
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __outbox_tests {
    ($tested:ident $($case:ident;)+) => {$(
        #[test]
        fn $case() {
            $crate::outbox::check($crate::outbox::laws::$case::<$tested>);
        }
    )+};
}
