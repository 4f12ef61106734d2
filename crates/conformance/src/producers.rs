//! The laws of the journal of producers, over a real store: `semel_conformance::producer_laws!(Journal)`.

pub mod laws;
pub mod servers;
pub mod turns;

use std::future::Future;

use semel_core::Timestamp;
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{Batch, Opening, ProducerMessage, encode};

use crate::check::run_unnamed;

/// A store under test, without any producer.
pub trait ProducerSubject: Sized + Send + Sync + 'static {
    /// The journal.
    type Journal: ProducerJournal;

    /// Makes the store.
    fn open() -> impl Future<Output = Self> + Send;

    /// Opens the journal as another process does.
    fn journal(&self) -> impl Future<Output = Self::Journal> + Send;
}

/// Returns the opening of a producer, for messages to one place.
///
/// # Panics
///
/// If it is no name.
pub fn opening(name: &str, stream: &str) -> Opening {
    Opening {
        name: name.parse().expect("a name"),
        stream: stream.into(),
        target: "kafka here".into(),
        chance: [7; 8],
    }
}

/// Returns a batch of messages with these payloads and nothing else.
///
/// # Panics
///
/// Never, for so few as can be written down.
pub fn batch(first: u64, payloads: &[&'static str]) -> Batch {
    let messages = payloads.iter().map(|it| ProducerMessage::new(*it));
    let messages: Vec<_> = messages.collect();
    Batch {
        first,
        count: u32::try_from(messages.len()).expect("few"),
        body: encode(&messages),
        input: None,
        confirmed: 0,
        at: Timestamp::from_millis(1),
    }
}

/// Runs `case` over a fresh store of `S`.
///
/// # Panics
///
/// When the case fails.
pub fn check<S, F>(case: impl FnOnce(S) -> F + Send + 'static)
where
    S: ProducerSubject,
    F: Future<Output = ()> + Send + 'static,
{
    run_unnamed(Box::pin(async move { case(S::open().await).await }));
}

/// Expands to every law of a journal of producers, a test each, but for
/// [`laws::the_input_used_longest_ago_is_forgotten_first`]: a thousand writes are too many where each is synced.
#[macro_export]
macro_rules! producer_laws {
    ($subject:ident) => {
        mod producer_laws {
            use super::$subject as Tested;
            $crate::__producer_tests! { Tested
                an_opening_has_a_higher_epoch_and_fences_the_one_before;
                openings_at_once_have_epochs_of_their_own;
                what_is_appended_is_what_the_next_process_reads;
                an_append_that_is_repeated_changes_nothing_and_one_that_is_not_the_next_is_refused;
                what_is_confirmed_is_forgotten_and_comes_never_back;
                pages_have_whole_batches_in_order;
                the_progress_of_an_input_is_kept_with_its_messages;
                messages_that_wait_for_one_place_are_not_published_to_another;
                a_frozen_producer_keeps_its_messages_until_they_are_released;
                streams_and_producers_are_apart;
                producers_are_listed_page_by_page;
                nothing_is_on_record_before_the_first_opening;
                processes_that_fence_each_other_give_out_each_sequence_once;
                an_order_beside_appends_takes_hold_with_its_answer;
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __producer_tests {
    ($tested:ident $($case:ident;)+) => {$(
        #[test]
        fn $case() {
            $crate::producers::check($crate::producers::laws::$case::<$tested>);
        }
    )+};
}
