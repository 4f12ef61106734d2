//! Servers of hyper, each in a process of its own so that its processor time is its own: the API behind the proxies,
//! and a proxy that forwards and knows of no key.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::process::Process;

type Failure = Box<dyn std::error::Error>;
type Sent = Box<dyn std::error::Error + Send + Sync>;

/// Serves what `words` say, without end: `upstream ADDRESS`, `proxy ADDRESS UPSTREAM`, or `append ADDRESS FILE`. Returns `None` for other words.
pub(crate) fn serve(words: &[String]) -> Option<crate::Outcome> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["upstream", address] => Some(upstream(address)),
        ["proxy", address, upstream] => Some(proxy(address, upstream)),
        ["append", address, file] => Some(append(address, file)),
        _ => None,
    }
}

/// Starts one of them, this program once more, and waits until it takes connections.
pub(crate) fn start(words: &[&str], address: SocketAddr, log: &Path) -> Result<Process, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words);
    listening(Process::start(command, log)?, address)
}

/// The server, once it takes connections.
pub(crate) fn listening(mut server: Process, address: SocketAddr) -> Result<Process, Failure> {
    server.until(|_| Ok(std::net::TcpStream::connect(address).is_ok()))?;
    Ok(server)
}

/// Books nothing, and answers each request with the same 201.
fn upstream(address: &str) -> crate::Outcome {
    serving(address, |_| async {
        let mut answer = Response::new(Full::new(Bytes::from_static(b"{\"charged\":true}\n")));
        *answer.status_mut() = StatusCode::CREATED;
        let json = HeaderValue::from_static("application/json");
        answer.headers_mut().insert(CONTENT_TYPE, json);
        Ok(answer)
    })
}

/// Forwards each request over kept connections, and its answer as it comes.
fn proxy(address: &str, upstream: &str) -> crate::Outcome {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new());
    let client: Client<HttpConnector, Incoming> = builder.build_http();
    let upstream = upstream.to_owned();
    serving(address, move |mut request| {
        let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
        let uri = format!("http://{upstream}{path}").parse();
        let client = client.clone();
        async move {
            *request.uri_mut() = uri?;
            Ok(client.request(request).await?)
        }
    })
}

/// Appends each body to a file, and answers once it is synced: one sync for all that wait.
fn append(address: &str, file: &str) -> crate::Outcome {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    let (bodies, received) = mpsc::sync_channel::<(Bytes, oneshot::Sender<()>)>(MOST_WAITING);
    std::thread::spawn(move || -> std::io::Result<()> {
        while let Ok(first) = received.recv() {
            let waiting: Vec<_> = std::iter::once(first).chain(received.try_iter()).collect();
            for (body, _) in &waiting {
                file.write_all(body)?;
            }
            file.sync_data()?;
            for (_, answer) in waiting {
                // Who hung up is not told.
                let _ = answer.send(());
            }
        }
        Ok(())
    });
    serving(address, move |request: Request<Incoming>| {
        let bodies = bodies.clone();
        async move {
            let body = request.into_body().collect().await?.to_bytes();
            let (answer, synced) = oneshot::channel();
            bodies.send((body, answer))?;
            synced.await?;
            Ok(Response::new(Full::new(Bytes::from_static(
                b"{\"accepted\":1}\n",
            ))))
        }
    })
}

/// More than there are connections, each of which waits for its answer.
const MOST_WAITING: usize = 4_096;

fn serving<B, A, F>(address: &str, answer: A) -> crate::Outcome
where
    B: Body<Data = Bytes, Error: Into<Sent>> + Send + 'static,
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, Sent>> + Send + 'static,
{
    Runtime::new()?.block_on(async {
        let listener = TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let service = service_fn(answer.clone());
            tokio::spawn(async move {
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // A client that hangs up is no matter here.
                let _ = connection.await;
            });
        }
    })
}
