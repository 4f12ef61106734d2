//! The laws of the sink port, over a real broker: `semel_conformance::sink_laws!(Place)`.

use std::future::Future;

use bytes::Bytes;
use semel_core::LawId;
use semel_core::port::sink::{Publication, Sink};

use crate::check::run;
use crate::source::Message;

/// A broker under test: one fresh, empty place of it, and a sink that publishes there.
pub trait SinkSubject: Sized + Send + Sync + 'static {
    /// The sink.
    type Sink: Sink;

    /// Makes an empty place.
    fn open() -> impl Future<Output = Self> + Send;

    /// A sink that publishes there.
    fn sink(&self) -> impl Future<Output = Self::Sink> + Send;

    /// Reads `count` messages from the place, oldest first.
    fn read(&self, count: usize) -> impl Future<Output = Vec<Message>> + Send;
}

/// Expands to every law of a sink, a test each.
#[macro_export]
macro_rules! sink_laws {
    ($subject:ident) => {
        mod sink_laws {
            use super::$subject as Tested;
            $crate::__sink_tests! { Tested
                LawId::Confirmed => what_is_confirmed_is_there_whole_and_in_order;
                LawId::Confirmed => publishing_nothing_is_answered_with_nothing;
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __sink_tests {
    ($tested:ident $(LawId::$law:ident => $case:ident;)+) => {$(
        #[test]
        fn $case() {
            $crate::sink::check($crate::LawId::$law, $crate::sink::$case::<$tested>);
        }
    )+};
}

/// Runs `case` in a fresh place of `S`.
///
/// # Panics
///
/// With the id and the sentence of `law` when the case fails.
pub fn check<S, F>(law: LawId, case: impl FnOnce(S) -> F + Send + 'static)
where
    S: SinkSubject,
    F: Future<Output = ()> + Send + 'static,
{
    run(law, Box::pin(async move { case(S::open().await).await }));
}

/// Payloads byte for byte, headers, and the order of the batch.
pub async fn what_is_confirmed_is_there_whole_and_in_order<S: SinkSubject>(place: S) {
    let mut batch: Vec<_> = (0..300)
        .map(|n| publication(&n.to_string(), n.to_string().into()))
        .collect();
    batch.push(publication("bytes", (0..=255).collect::<Vec<u8>>().into()));
    batch.push(publication("large", vec![b'x'; 200_000].into()));
    let sink = place.sink().await;
    let confirmed = sink.publish(&batch).await;
    assert_eq!(confirmed.len(), batch.len(), "an answer each");
    assert!(confirmed.iter().all(Result::is_ok), "{confirmed:?}");
    let there = place.read(batch.len()).await;
    let sent: Vec<_> = batch.iter().map(|it| it.payload.clone()).collect();
    let read: Vec<_> = there.iter().map(|it| it.payload.clone()).collect();
    assert_eq!(sent, read);
    for (sent, read) in batch.iter().zip(&there) {
        for header in &sent.headers {
            assert!(
                read.headers.contains(header),
                "{header:?} in {:?}",
                read.headers
            );
        }
    }
}

/// Publishing nothing is no error.
pub async fn publishing_nothing_is_answered_with_nothing<S: SinkSubject>(place: S) {
    let sink = place.sink().await;
    assert!(sink.publish(&[]).await.is_empty());
}

fn publication(id: &str, payload: Bytes) -> Publication {
    Publication {
        id: id.into(),
        order: Some("cart-1".into()),
        payload,
        headers: vec![
            ("reason".into(), "dead".into()),
            ("origin".into(), id.to_owned().into()),
        ],
    }
}
