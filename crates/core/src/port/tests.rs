//! Ports that are picked at run time, or shared: they answer as the store or sink behind them does.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::checkpoint::{AnyCheckpointStore, CheckpointStore, Together, Write};
use super::sink::{AnySink, Publication, Sink};
use super::source::{Acknowledgement, AnySource, DeliveryId, Fetched, Progress, Source};
use super::store::{AnyStore, Capabilities, ListQuery, Listed, Page, Stats, Store, Swept};
use super::transactional::{
    AnyTransactionalStore, Application, Applied, Statements, TransactionalStore,
};
use super::transfer::{AnyTransferStore, Item, TransferStore};
use crate::audit::{Audited, Note};
use crate::claim::{Admission, ClaimRequest};
use crate::decide::{Directed, Directive};
use crate::error::{Error, ErrorKind, Result};
use crate::fate::Fate;
use crate::operation::Operation;
use crate::parked::{Parked, ParkedId};
use crate::record::Record;
use crate::settle::{Mark, Renewal, Renewed, Settled, Settlement};

/// Answers each call with a refusal that names it.
struct Refuses;

fn refusal<T>(call: &str) -> Result<T> {
    Err(Error::new(ErrorKind::Throttled, call))
}

impl Store for Refuses {
    async fn claim(&self, _: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        refusal("claim")
    }

    async fn settle(&self, _: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        refusal("settle")
    }

    async fn renew(&self, _: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        refusal("renew")
    }

    async fn park(&self, _: Arc<[Parked]>) -> Result<Vec<bool>> {
        refusal("park")
    }

    async fn drop_parked(&self, _: Arc<[ParkedId]>, _: Option<&Note>) -> Result<Vec<bool>> {
        refusal("drop_parked")
    }

    async fn get(&self, _: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        refusal("get")
    }

    async fn list(&self, _: &ListQuery) -> Result<Page<Listed>> {
        refusal("list")
    }

    async fn list_parked(&self, _: &ListQuery) -> Result<Page<Parked>> {
        refusal("list_parked")
    }

    async fn operate(&self, _: Arc<[Directive]>) -> Result<Vec<Directed>> {
        refusal("operate")
    }

    async fn list_audit(&self, _: &ListQuery) -> Result<Page<Audited>> {
        refusal("list_audit")
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        refusal(&format!("sweep {limit}"))
    }

    async fn stats(&self) -> Result<Stats> {
        refusal("stats")
    }

    async fn estimate(&self, most: usize) -> Result<Stats> {
        refusal(&format!("estimate {most}"))
    }

    async fn preflight(&self) -> Result<Capabilities> {
        refusal("preflight")
    }
}

impl CheckpointStore for Refuses {
    async fn settle_with(&self, _: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        refusal(&format!("settle_with {}", mark.name))
    }

    async fn admit_with(&self, _: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        write(&[]).and_then(|mark| refusal(&format!("admit_with {}", mark.name)))
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        refusal(&format!("mark {name}"))
    }
}

impl TransactionalStore for Refuses {
    async fn prepare(&self, _: &Statements) -> Result<()> {
        refusal("prepare")
    }

    async fn apply(&self, _: &Statements, _: Arc<[Application]>) -> Result<Vec<Applied>> {
        refusal("apply")
    }
}

impl TransferStore for Refuses {
    async fn export(&self, _: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        refusal(&format!("export {limit}"))
    }

    async fn import(&self, _: Arc<[Item]>) -> Result<Vec<bool>> {
        refusal("import")
    }
}

impl Sink for Refuses {
    async fn publish(&self, _: &[Publication]) -> Vec<Result<()>> {
        vec![refusal("publish"), refusal("publish too")]
    }
}

impl Source for Refuses {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        refusal(&format!("fetch {max}"))
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        refusal(&format!("acknowledge {batch:?}"))
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        refusal(&format!("requeue {batch:?}"))
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        refusal(&format!("extend {batch:?}"))
    }

    async fn close(&mut self) -> Result<()> {
        refusal("close")
    }

    fn progress(&self) -> Option<Progress> {
        Some(Progress {
            read_bytes: 3,
            total_bytes: Some(4),
        })
    }

    fn hold(&self) -> Option<Duration> {
        Some(Duration::from_secs(5))
    }
}

/// Nothing here waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

fn refused<T>(future: impl Future<Output = Result<T>>) -> String {
    match now(future) {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn mark() -> Mark {
    Mark {
        name: "out".into(),
        value: 7,
    }
}

/// The answer of each method, in the order of the port.
fn calls(store: &impl Store) -> Vec<String> {
    let query = ListQuery::default();
    vec![
        refused(store.claim(Arc::new([]))),
        refused(store.settle(Arc::new([]))),
        refused(store.renew(Arc::new([]))),
        refused(store.park(Arc::new([]))),
        refused(store.drop_parked(Arc::new([]), None)),
        refused(store.get(Arc::new([]))),
        refused(store.list(&query)),
        refused(store.list_parked(&query)),
        refused(store.operate(Arc::new([]))),
        refused(store.list_audit(&query)),
        refused(store.sweep(3)),
        refused(store.stats()),
        refused(store.estimate(4)),
        refused(store.preflight()),
    ]
}

#[test]
fn a_store_that_is_picked_or_shared_answers_as_it_does() {
    let own = calls(&Refuses);
    assert_eq!(own[0], "claim");
    assert_eq!(calls(&Arc::new(Refuses)), own);
    assert_eq!(calls(&AnyStore::new(Refuses)), own);
}

/// A layer with two methods of its own, over a store that may be gone.
struct Layer(Option<Refuses>);

impl Layer {
    fn store(&self) -> Result<&Refuses> {
        self.0.as_ref().map_or_else(|| refusal("gone"), Ok)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Layer {
    async fn claim(&self, _: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        refusal("own claim")
    }

    async fn sweep(&self, _: usize) -> Result<Swept> {
        refusal("own sweep")
    }

    crate::forward_store!(self => self.store()?; but sweep, claim);
}

#[test]
fn a_layer_forwards_all_but_its_own_methods() {
    let forwarded = calls(&Refuses);
    let own = ["own claim", "own sweep"];
    for (place, answer) in calls(&Layer(Some(Refuses))).into_iter().enumerate() {
        match place {
            0 => assert_eq!(answer, own[0]),
            10 => assert_eq!(answer, own[1]),
            _ => assert_eq!(answer, forwarded[place]),
        }
    }
    let gone = calls(&Layer(None));
    assert_eq!(gone.iter().filter(|answer| *answer == "gone").count(), 12);
}

#[test]
fn a_checkpoint_store_that_is_picked_or_shared_answers_as_it_does() {
    fn calls(store: &impl CheckpointStore) -> Vec<String> {
        vec![
            refused(store.settle_with(Arc::new([]), &mark())),
            refused(store.admit_with(Vec::new(), Box::new(|_| Ok(mark())))),
            refused(store.mark("out")),
        ]
    }
    let own = ["settle_with out", "admit_with out", "mark out"];
    assert_eq!(calls(&Refuses), own);
    assert_eq!(calls(&Arc::new(Refuses)), own);
    assert_eq!(calls(&AnyCheckpointStore::new(Refuses)), own);
}

#[test]
fn a_transactional_store_that_is_picked_or_shared_answers_as_it_does() {
    fn calls(store: &impl TransactionalStore) -> Vec<String> {
        let statements = Statements {
            sql: Arc::new([]),
            params: Arc::new([]),
        };
        vec![
            refused(store.prepare(&statements)),
            refused(store.apply(&statements, Arc::new([]))),
        ]
    }
    let own = ["prepare", "apply"];
    assert_eq!(calls(&Refuses), own);
    assert_eq!(calls(&Arc::new(Refuses)), own);
    assert_eq!(calls(&AnyTransactionalStore::new(Refuses)), own);
}

#[test]
fn a_store_to_move_that_is_picked_or_shared_answers_as_it_does() {
    fn calls(store: &impl TransferStore) -> Vec<String> {
        vec![
            refused(store.export(None, 5)),
            refused(store.import(Arc::new([]))),
        ]
    }
    let own = ["export 5", "import"];
    assert_eq!(calls(&Refuses), own);
    assert_eq!(calls(&Arc::new(Refuses)), own);
    assert_eq!(calls(&AnyTransferStore::new(Refuses)), own);
}

#[test]
fn a_sink_that_is_picked_answers_as_it_does() {
    let answers = now(AnySink::new(Refuses).publish(&[]));
    let told: Vec<String> = answers
        .into_iter()
        .filter_map(|answer| answer.err().map(|error| error.to_string()))
        .collect();
    assert_eq!(told, ["publish", "publish too"]);
}

#[test]
fn a_source_that_is_picked_answers_as_it_does() {
    fn calls(mut source: impl Source) -> Vec<String> {
        let told = [Acknowledgement::new(DeliveryId(1), Fate::Conflict)];
        vec![
            refused(source.fetch(7)),
            refused(source.acknowledge(&told)),
            refused(source.requeue(&[DeliveryId(2)])),
            refused(source.extend(&[DeliveryId(3)])),
            refused(source.close()),
            format!("{:?}", source.progress()),
            format!("{:?}", source.hold()),
        ]
    }
    let own = calls(Refuses);
    assert_eq!(
        (&*own[0], &*own[4], &*own[6]),
        ("fetch 7", "close", "Some(5s)")
    );
    assert!(own[1].contains("Conflict"), "{}", own[1]);
    assert_eq!(calls(AnySource::new(Refuses)), own);
}
