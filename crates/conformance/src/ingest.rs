//! The laws of the journal of messages that others send, over a real store: `semel_conformance::ingest_laws!(Journal)`.

pub mod laws;
pub mod servers;
pub mod silence;

use std::future::Future;

use semel_core::Timestamp;
use semel_core::ingest::{Numbering, Submission};
use semel_core::port::ingest::{IngestJournal, Settled};
use semel_core::producer::{ProducerMessage, ProducerName};

use crate::check::run_unnamed;

/// A store under test, to which nobody has sent anything.
pub trait IngestSubject: Sized + Send + Sync + 'static {
    /// The journal.
    type Journal: IngestJournal;

    /// Makes the store.
    fn open() -> impl Future<Output = Self> + Send;

    /// Opens the journal as another process does.
    fn journal(&self) -> impl Future<Output = Self::Journal> + Send;
}

/// Returns the id of a producer.
///
/// # Panics
///
/// If it is none.
pub fn producer(id: &str) -> ProducerName {
    ProducerName::of_sender(id).expect("an id")
}

/// Returns messages of producer `billing-0a` for stream `orders`, with these payloads and nothing else.
///
/// # Panics
///
/// Never.
pub fn sent(epoch: u64, first: u64, payloads: &[&'static str]) -> Submission {
    Submission {
        numbering: Numbering::Sender {
            producer: producer("billing-0a"),
            epoch,
            first,
            is_any_first: false,
        },
        stream: "orders".into(),
        messages: payloads
            .iter()
            .map(|it| ProducerMessage::new(*it))
            .collect(),
        at: Timestamp::from_millis(1_795_257_180_123),
    }
}

/// Returns the end of messages that are settled, at the time of [`sent`].
///
/// # Panics
///
/// Never.
pub fn settled(begun: u64, through: u64) -> Settled {
    Settled {
        begun,
        through,
        at: sent(1, 1, &[]).at,
    }
}

/// Returns messages for stream `orders` that nobody numbers.
pub fn arrived(digest: Option<[u8; 32]>, payloads: &[&'static str]) -> Submission {
    Submission {
        numbering: Numbering::Arrival { digest },
        ..sent(1, 1, payloads)
    }
}

/// Runs `case` over a fresh store of `S`.
///
/// # Panics
///
/// When the case fails.
pub fn check<S, F>(case: impl FnOnce(S) -> F + Send + 'static)
where
    S: IngestSubject,
    F: Future<Output = ()> + Send + 'static,
{
    run_unnamed(Box::pin(async move { case(S::open().await).await }));
}

/// Expands to every law of a journal of messages that others send, a test each.
#[macro_export]
macro_rules! ingest_laws {
    ($subject:ident) => {
        mod ingest_laws {
            use super::$subject as Tested;
            $crate::__ingest_tests! { laws Tested
                what_was_taken_is_what_the_next_process_reads;
                each_message_is_taken_once_and_what_is_refused_changes_nothing;
                an_older_epoch_is_fenced_also_for_what_is_known;
                a_later_epoch_goes_on_where_the_one_before_was;
                a_producer_that_is_not_on_record_begins_with_one_or_where_it_may;
                submissions_at_once_are_taken_once;
                histories_agree_with_the_decision;
                what_is_settled_is_forgotten_and_its_position_is_not;
                a_frozen_producer_is_kept_until_it_is_released;
                streams_and_producers_are_apart;
                what_nobody_numbers_is_known_by_its_digest;
                the_longest_names_have_a_place;
                producers_are_listed_page_by_page;
                nothing_is_on_record_before_the_first_message;
            }
            $crate::__ingest_tests! { silence Tested
                a_producer_that_was_silent_for_long_is_forgotten;
                what_may_be_of_use_is_not_forgotten;
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __ingest_tests {
    ($module:ident $tested:ident $($case:ident;)+) => {$(
        #[test]
        fn $case() {
            $crate::ingest::check($crate::ingest::$module::$case::<$tested>);
        }
    )+};
}
