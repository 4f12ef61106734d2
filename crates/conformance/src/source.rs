//! The laws of the source port, over a real broker.
//!
//! ```text
//! struct Queue { /* a queue that nobody else uses */ }
//!
//! impl SourceSubject for Queue { /* … */ }
//!
//! semel_conformance::source_laws!(Queue);
//! semel_conformance::held_laws!(Queue); // with `impl HeldSubject`
//! ```

pub mod laws;

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::source::{Acknowledgement, DeliveryId, Fetched, Source};
use semel_core::{ByteString, Fate, LawId};

use crate::check::run;

/// A broker under test: one fresh, empty place of it, and consumers of one group there.
pub trait SourceSubject: Sized + Send + Sync + 'static {
    /// The source.
    type Source: Source;

    /// The longest time until the deliveries of a vanished consumer are handed to the next one.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// True if the names of headers keep their capital letters, which HTTP does not.
    const KEEPS_CASE: bool = true;

    /// Makes an empty place.
    fn open() -> impl Future<Output = Self> + Send;

    /// Publishes these in their order, and returns once the broker has them.
    fn put(&self, messages: &[Message]) -> impl Future<Output = ()> + Send;

    /// Adds a consumer to the group.
    fn source(&self) -> impl Future<Output = Self::Source> + Send;
}

/// A broker that takes back what is neither acknowledged nor extended.
pub trait HeldSubject: SourceSubject {
    /// The time for which a delivery is held without an extension.
    const HOLD: Duration;
}

/// A message as it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The payload, byte for byte.
    pub payload: Bytes,
    /// The headers, in this order.
    pub headers: Vec<(ByteString, Bytes)>,
}

impl Message {
    /// A message without headers.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            headers: Vec::new(),
        }
    }
}

/// The words for these deliveries that their effects have happened.
pub fn applied(ids: &[DeliveryId]) -> Vec<Acknowledgement> {
    let told = ids
        .iter()
        .map(|id| Acknowledgement::new(*id, Fate::Applied));
    told.collect()
}

/// The next `count` messages of a source, as they were published; they are acknowledged as they come.
///
/// # Panics
///
/// If the source ends or fails.
pub async fn read(source: &mut impl Source, count: usize) -> Vec<Message> {
    let mut read = Vec::new();
    while read.len() < count {
        match source.fetch(count - read.len()).await {
            Ok(Fetched::Deliveries(some)) => {
                let ids: Vec<_> = some.iter().map(|it| it.id).collect();
                source.acknowledge(&applied(&ids)).await.expect("a word");
                read.extend(some.into_iter().map(|it| Message {
                    payload: it.payload,
                    headers: it.headers,
                }));
            }
            Ok(
                Fetched::Away(_) | Fetched::Back | Fetched::Elsewhere { .. } | Fetched::Revoked(_),
            ) => {}
            other => panic!("{other:?}"),
        }
    }
    read
}

/// Runs `case` in a fresh place of `S`.
///
/// # Panics
///
/// With the id and the sentence of `law` when the case fails.
pub fn check<S, F>(law: LawId, case: impl FnOnce(S) -> F + Send + 'static)
where
    S: SourceSubject,
    F: Future<Output = ()> + Send + 'static,
{
    run(law, Box::pin(async move { case(S::open().await).await }));
}

/// Expands to every law of a source, a test each.
#[macro_export]
macro_rules! source_laws {
    ($subject:ident) => {
        mod source_laws {
            use super::$subject as Tested;
            $crate::__source_tests! { Tested
                LawId::DeliveredAgain => every_message_is_delivered_whole;
                LawId::DeliveredAgain => no_more_is_handed_over_than_was_asked_for;
                LawId::DeliveredAgain => where_there_is_nothing_a_source_waits;
                LawId::DeliveredAgain => a_fetch_that_is_dropped_loses_nothing;
                LawId::DeliveredAgain => what_a_vanished_consumer_held_comes_again;
                LawId::DeliveredAgain => what_was_given_back_comes_again;
                LawId::DeliveredAgain => a_redelivery_is_the_same_message_at_the_same_place;
                LawId::DeliveredAgain => two_consumers_get_everything_between_them;
                LawId::NotDeliveredAgain => what_was_acknowledged_before_a_close_is_over;
                LawId::NotDeliveredAgain => a_close_right_after_an_acknowledgement_keeps_it;
                LawId::SettledAlone => acknowledging_one_settles_no_other;
                LawId::SettledAlone => a_stale_acknowledgement_settles_nothing;
                LawId::SettledAlone => acknowledging_twice_is_harmless;
            }
        }
    };
}

/// Expands to every law of a source whose broker takes deliveries back, a test each.
#[macro_export]
macro_rules! held_laws {
    ($subject:ident) => {
        mod held_laws {
            use super::$subject as Tested;
            $crate::__source_tests! { Tested
                LawId::Held => what_is_extended_is_handed_to_nobody_else;
                LawId::DeliveredAgain => what_is_not_extended_is_handed_to_another;
                LawId::NotDeliveredAgain => what_was_acknowledged_does_not_come_when_its_time_is_over;
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __source_tests {
    ($tested:ident $(LawId::$law:ident => $case:ident;)+) => {$(
        #[test]
        fn $case() {
            $crate::source::check($crate::LawId::$law, $crate::source::laws::$case::<$tested>);
        }
    )+};
}
