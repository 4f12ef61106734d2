//! The spans in hand are sent however a worker ends.

use std::path::Path;
use std::sync::Mutex;

use semel_backends::BACKENDS;
use semel_config::{Overrides, PipelineSettings};
use semel_core::{ErrorKind, Fate, SpanId, TraceContext, TraceFlags, TraceId};
use semel_engine::event::{Event, Unobserved};
use semel_engine::surroundings::OnProgress;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_engine::trace::{End, Span, Spans};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::*;

/// A collector, and the bodies that it got.
struct Collector {
    url: String,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    /// Takes everything, or never answers.
    async fn begin(answers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let got = Arc::clone(&bodies);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let got = Arc::clone(&got);
                tokio::spawn(async move {
                    while let Some(body) = request(&mut stream).await {
                        got.lock().expect("no panic").push(body);
                        if !answers {
                            return std::future::pending().await;
                        }
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                        stream.write_all(answer).await.expect("written");
                    }
                });
            }
        });
        Self { url, bodies }
    }

    fn has(&self, name: &str) -> bool {
        let bodies = self.bodies.lock().expect("no panic");
        let has = |body: &Vec<u8>| body.windows(name.len()).any(|it| it == name.as_bytes());
        bodies.iter().any(has)
    }
}

/// Reads a request; returns its body.
async fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    loop {
        let head = read.windows(4).position(|it| it == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
            let length = text
                .lines()
                .find_map(|it| it.strip_prefix("content-length: "));
            let length = length.and_then(|it| it.parse().ok()).unwrap_or(0);
            if read.len() >= head + 4 + length {
                return Some(read.split_off(head + 4));
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

/// Remembers how many spans were lost.
#[derive(Default)]
struct Told(Mutex<Option<u64>>);

impl Reporter for Told {
    fn report(&self, notice: &Notice<'_>) {
        if let Notice::SpansLost { lost } = notice {
            *self.0.lock().expect("no panic") = Some(*lost);
        }
    }

    fn progress(&self, _: &PipelineSettings) -> OnProgress {
        Arc::new(|_, _| {})
    }
}

/// Ends a pipeline in the middle.
struct Panics;

impl Observer for Panics {
    fn observe(&self, _: &str, event: &Event<'_>) {
        assert!(!matches!(event, Event::Completed { .. }), "a bug");
    }
}

/// A worker with one message, whose spans go to this collector, with one of them in hand.
async fn worker(
    folder: &Path,
    collector: &Collector,
    observer: Arc<dyn Observer>,
) -> (Supervisor, Arc<Told>) {
    let place = folder.display();
    std::fs::write(folder.join("in.ndjson"), "{\"id\":1}\n").expect("a file");
    let text = format!(
        "[store]\nurl = \"sqlite:{place}/store.db\"\n[telemetry]\notlp = \"{}\"\nsample = \"0%\"\n\
         [pipelines.pay]\nsource = {{ kind = \"file\", path = \"{place}/in.ndjson\" }}\nkey = \"json:/id\"\n\
         effect = {{ kind = \"file\", path = \"{place}/out\" }}\n",
        collector.url
    );
    let (none, overrides) = (std::iter::empty(), Overrides::default());
    let settings = Settings::of("semel.toml", &text, none, &overrides, BACKENDS);
    let told = Arc::new(Told::default());
    let options = Options {
        settings: settings.expect("sound settings"),
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        observer,
        reporter: told.clone(),
        stop: watch::channel(false).0,
    };
    let supervisor = Supervisor::new(options).await.expect("no listener");
    let exporter = supervisor.exporter.as_ref().expect("a collector");
    let process = Span {
        context: TraceContext {
            trace_id: TraceId::from_bytes([1; 16]).expect("not zero"),
            span_id: SpanId::from_bytes([2; 8]).expect("not zero"),
            flags: TraceFlags::SAMPLED,
        },
        began: Duration::from_secs(1),
        took: Duration::from_secs(1),
    };
    let spans = Spans::new(process, "place", End::Fate(Fate::Applied));
    exporter.traces().handle().observe_spans("in-hand", &spans);
    (supervisor, told)
}

#[tokio::test]
async fn spans_in_hand_are_sent_if_the_store_cannot_be_opened() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("store.db"), "not a store").expect("a file");
    let collector = Collector::begin(true).await;
    let (supervisor, _) = worker(folder.path(), &collector, Arc::new(Unobserved)).await;
    assert!(supervisor.open().await.is_err());
    assert!(collector.has("process in-hand"));
}

#[tokio::test]
async fn spans_in_hand_are_sent_if_a_run_ends_with_an_error() {
    let folder = TempDir::new().expect("a folder");
    let collector = Collector::begin(true).await;
    let (supervisor, told) = worker(folder.path(), &collector, Arc::new(Panics)).await;
    let Ok(Opened::Worker(worker)) = supervisor.open().await else {
        panic!("it opens");
    };
    let error = worker.run().await.expect_err("a pipeline panicked");
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(collector.has("process in-hand"));
    assert_eq!(*told.0.lock().expect("no panic"), None);
}

#[tokio::test]
async fn no_error_waits_longer_than_two_seconds_for_a_collector() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("store.db"), "not a store").expect("a file");
    let collector = Collector::begin(false).await;
    let (supervisor, told) = worker(folder.path(), &collector, Arc::new(Unobserved)).await;
    let began = Instant::now();
    assert!(supervisor.open().await.is_err());
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "on a busy machine"
    );
    assert_eq!(*told.0.lock().expect("no panic"), Some(1), "and says so");
}
