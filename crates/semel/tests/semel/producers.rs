//! A producer of the library, in every store that keeps one.

use std::sync::{Arc, Mutex, PoisonError};

use semel::producer::{self, ProducerMessage, ProducerOrder, Publication, Sink};
use semel::{Code, ErrorKind};
use tempfile::TempDir;

use crate::server::Place;

/// A broker whose reader goes by ids, as a message may come again after another opening.
#[derive(Clone, Default)]
struct Broker(Arc<Mutex<Vec<Seen>>>);

/// The id and the payload of a message.
type Seen = (Box<str>, String);

impl Broker {
    fn has(&self) -> Vec<String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|(_, payload)| payload.clone()).collect()
    }
}

impl Sink for Broker {
    async fn publish(&self, batch: &[Publication]) -> Vec<semel::Result<()>> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for Publication { id, payload, .. } in batch {
            if seen.iter().all(|(known, _)| known != id) {
                seen.push((id.clone(), String::from_utf8_lossy(payload).into_owned()));
            }
        }
        batch.iter().map(|_| Ok(())).collect()
    }
}

async fn it_goes_on_and_fences_the_one_before(url: &str) {
    let broker = Broker::default();
    let open = async || producer::open(url, "billing", "orders", broker.clone()).await;
    let send = |text: &'static str| vec![ProducerMessage::new(text)];
    let first = open().await.expect("opened");
    let receipts = first.publish(send("a")).await.expect("published");
    assert_eq!(receipts[0].sequence, 1);
    let second = open().await.expect("opened");
    let incarnation = second.incarnation();
    assert_eq!(
        (incarnation.epoch, &incarnation.id),
        (2, &first.incarnation().id)
    );
    let fenced = first.publish(send("late")).await.expect_err("fenced");
    assert_eq!(fenced.code(), Code::ProducerFenced);
    let receipts = second.publish(send("b")).await.expect("published");
    assert_eq!(receipts[0].sequence, 2);
    second.close().await.expect("closed");
    // Frozen, it keeps what it takes; thawed, the next one sends it.
    let journal = producer::journal(url).expect("a journal");
    let name = "billing".parse().expect("a name");
    let order = async |order| {
        let ordered = semel::producer::ProducerJournal::order(&journal, &name, order).await;
        assert!(ordered.expect("ordered"));
    };
    order(ProducerOrder::Freeze).await;
    let third = open().await.expect("opened");
    third.publish(send("kept")).await.expect("kept");
    third.close().await.expect("closed");
    assert_eq!(broker.has(), ["a", "b"]);
    order(ProducerOrder::Thaw).await;
    let fourth = open().await.expect("opened");
    fourth.close().await.expect("closed");
    assert_eq!(broker.has(), ["a", "b", "kept"]);
}

/// A test for each kind of store.
macro_rules! keeps {
    ($($kind:ident)+) => {$(
        #[tokio::test]
        async fn $kind() {
            let kind = stringify!($kind);
            if let Some(place) = Place::on(kind) {
                it_goes_on_and_fences_the_one_before(&place.url()).await;
            } else {
                let folder = TempDir::new().expect("a folder");
                let url = format!("{kind}:{}", folder.path().join("data").display());
                it_goes_on_and_fences_the_one_before(&url).await;
            }
        }
    )+};
}

keeps!(embedded sqlite postgres mysql redis);

#[tokio::test]
async fn a_store_that_keeps_no_producers_is_refused_without_its_password() {
    let error = producer::journal("kafka://me:geheim@127.0.0.1:1").expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let line = error.to_string();
    assert!(
        line.contains("mysql://") && !line.contains("geheim"),
        "{line}"
    );
    for wrong in [
        "postgres://me:geheim@db:port/x",
        "mysql://me:geheim@db:port/x",
        "redis://me:geheim@db:port/x",
    ] {
        let error = producer::journal(wrong).expect_err("no url");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(!error.to_string().contains("geheim"), "{error}");
    }
}
