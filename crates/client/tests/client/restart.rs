//! A process that is killed between its request and the answer.

use std::env;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use semel_client::{
    AnswerFrom, Intent, IntentLayer, IntentSettings, Intents, RetryLayer, Settings,
};
use semel_engine::once::Once;
use semel_engine::system::SystemClock;
use semel_store_embedded::{EmbeddedStore, Options};
use tower::Layer;

use crate::scripted::DAY;
use crate::servers::Server;

type Store = Arc<EmbeddedStore>;
type Sender = Intents<Store, Client<HttpConnector, Full<Bytes>>>;

const FOLDER: &str = "SEMEL_CLIENT_TEST_FOLDER";
const URL: &str = "SEMEL_CLIENT_TEST_URL";

/// A provider that recognises keys, and gives no answer to the first request under each.
#[derive(Clone, Default)]
struct Silent(Arc<Mutex<Vec<String>>>);

impl Silent {
    fn keys(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }

    fn app(&self) -> Router {
        Router::new()
            .route("/charges", post(charge))
            .with_state(self.clone())
    }
}

async fn charge(State(silent): State<Silent>, headers: HeaderMap) -> Response {
    let key = headers["idempotency-key"]
        .to_str()
        .expect("text")
        .to_owned();
    let is_first = {
        let mut keys = silent.0.lock().expect("no panic");
        keys.push(key.clone());
        keys.iter().filter(|known| **known == key).count() == 1
    };
    if is_first {
        std::future::pending::<()>().await;
    }
    (
        StatusCode::CREATED,
        [("idempotency-replayed", "true")],
        "charged",
    )
        .into_response()
}

fn client(folder: &Path) -> (Once<Store>, Sender) {
    let clock = Arc::new(SystemClock::new());
    let store = EmbeddedStore::open(folder, clock, Options::default()).expect("a store");
    let once = Once::new(Arc::new(store));
    let settings = Settings {
        attempts: NonZeroU32::MAX,
        attempt_timeout: Duration::from_secs(600),
        budget: Duration::from_secs(600),
        ..Settings::keyed(DAY)
    };
    let retry = RetryLayer::new(settings).expect("settings that hold");
    let layer = IntentLayer::new(&once, retry, IntentSettings::default());
    let http = Client::builder(TokioExecutor::new()).build_http();
    (once, layer.expect("settings that hold").layer(http))
}

fn order(url: &str) -> (Intent, Request<Full<Bytes>>) {
    let intent = Intent::of("charge", "order-1017").expect("an intent");
    let request = Request::post(url).body(Full::new(Bytes::from_static(b"{\"cents\":4200}")));
    (intent, request.expect("a request"))
}

/// Runs in the process that is killed; anywhere else it does nothing.
#[tokio::test]
async fn caller() {
    let (Ok(folder), Ok(url)) = (env::var(FOLDER), env::var(URL)) else {
        return;
    };
    let (_once, client) = client(Path::new(&folder));
    let (intent, request) = order(&url);
    let sent = client.send(&intent, request).await;
    panic!("there was an answer: {sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_before_its_answer_goes_on_under_the_same_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let silent = Silent::default();
    let server = Server::start(silent.app()).await;
    let mut child = Command::new(env::current_exe().expect("this program"))
        .args(["restart::caller", "--exact", "--nocapture"])
        .env(FOLDER, folder.path())
        .env(URL, server.url("/charges"))
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let first_request = async {
        while silent.keys().is_empty() {
            let ended = child.try_wait().expect("a child");
            assert_eq!(ended, None, "it ended before its request");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let began = tokio::time::timeout(Duration::from_secs(300), first_request).await;
    child.kill().expect("it is killed");
    child.wait().expect("it is dead");
    began.expect("it sent no request within five minutes");

    let (once, client) = client(folder.path());
    let (intent, request) = order(&server.url("/charges"));
    let open = client.open("charge", 10).await.expect("a list");
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].intent, intent);
    assert!(open[0].first_sent_at.is_some());
    let answer = client
        .send(&open[0].intent, request)
        .await
        .expect("the answer");
    let from = answer.extensions().get::<AnswerFrom>();
    assert_eq!(from, Some(&AnswerFrom::ServerRecord { attempts: 1 }));
    let key = intent.idempotency_key();
    assert_eq!(silent.keys(), [key.clone(), key]);
    assert_eq!(client.open("charge", 10).await.expect("a list"), []);

    // Once more, as after another restart: the answer is there, and nothing is sent.
    drop(client);
    once.close().await;
    drop(once);
    let (_once, client) = self::client(folder.path());
    let (intent, request) = order(&server.url("/charges"));
    let answer = client.send(&intent, request).await.expect("the answer");
    assert_eq!(answer.extensions().get(), Some(&AnswerFrom::Store));
    assert_eq!(silent.keys().len(), 2);
}
