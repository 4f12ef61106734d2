//! A collector of traces: takes OTLP over HTTP and reads protobuf by itself, so that a wrong number of a member shows.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use semel_conformance::certificates::Issued;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// A span as the collector got it. Ids are in hexadecimal digits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    pub(crate) trace_id: String,
    pub(crate) id: String,
    pub(crate) trace_state: String,
    pub(crate) parent_id: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) began_nanos: u64,
    pub(crate) ended_nanos: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Trace and span of each link.
    pub(crate) links: Vec<(String, String)>,
    /// The code of the status; 2 is an error.
    pub(crate) status: u64,
    pub(crate) status_text: String,
    pub(crate) flags: u64,
    pub(crate) resource: BTreeMap<String, String>,
    pub(crate) scope: (String, String),
}

impl Span {
    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// A collector. It answers until the test ends.
pub(crate) struct Collector {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Collector {
    /// Takes everything.
    pub(crate) fn new() -> Self {
        Self::answering("200 OK")
    }

    /// Answers with this status.
    pub(crate) fn answering(status: &'static str) -> Self {
        Self::begin("http", status, |stream| stream)
    }

    /// Takes everything, over TLS with this certificate.
    pub(crate) fn encrypted(issued: &Issued) -> Self {
        let chain = CertificateDer::pem_file_iter(&issued.cert).and_then(Iterator::collect);
        let chain: Vec<_> = chain.expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(&issued.key).expect("a key");
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth();
        let config = config.with_single_cert(chain, key);
        let config = Arc::new(config.expect("a certificate and its key"));
        Self::begin("https", "200 OK", move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config));
            StreamOwned::new(connection.expect("a connection"), stream)
        })
    }

    fn begin<S: Read + Write + Send + 'static>(
        scheme: &str,
        status: &'static str,
        wrap: impl Fn(TcpStream) -> S + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let notes = Arc::clone(&notes);
                let mut stream = BufReader::new(wrap(stream));
                thread::spawn(move || while serve(&mut stream, status, &notes).is_some() {});
            }
        });
        let url = format!("{scheme}://{address}");
        Self { url, asked }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The requests with this path.
    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        let asked = self.asked.lock().expect("no panic");
        let at_path = asked.iter().filter(|it| it.path == path);
        at_path.cloned().collect()
    }

    /// Every span so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let asked = self.asked("/v1/traces");
        asked.iter().flat_map(|it| spans(&it.body)).collect()
    }

    /// The spans with this name.
    pub(crate) fn named(&self, name: &str) -> Vec<Span> {
        let mut spans = self.spans();
        spans.retain(|span| span.name == name);
        spans
    }
}

/// Serves one request; nothing once the connection is closed.
fn serve<S: Read + Write>(
    stream: &mut BufReader<S>,
    status: &str,
    asked: &Mutex<Vec<Asked>>,
) -> Option<()> {
    let mut line = String::new();
    if stream.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    asked.lock().expect("no panic").push(Asked {
        path,
        headers,
        body,
    });
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    stream.get_mut().write_all(answer.as_bytes()).ok()
}

/// One member of a message: its number, and its value.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads the members of a message.
fn members(mut message: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut members = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut message)),
            1 => Value::Number(u64::from_le_bytes(
                take(&mut message, 8).try_into().expect("8"),
            )),
            2 => {
                let length = varint(&mut message);
                Value::Bytes(take(
                    &mut message,
                    usize::try_from(length).expect("a length"),
                ))
            }
            5 => {
                let bytes = take(&mut message, 4).try_into().expect("4");
                Value::Number(u64::from(u32::from_le_bytes(bytes)))
            }
            other => panic!("no type of a member: {other}"),
        };
        members.push((tag >> 3, value));
    }
    members
}

fn take<'a>(message: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = message.split_at(count);
    *message = rest;
    taken
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut number = 0;
    for place in 0.. {
        let byte = take(message, 1)[0];
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            break;
        }
    }
    number
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn digits(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// `ExportTraceServiceRequest`.
fn spans(request: &[u8]) -> Vec<Span> {
    let mut all = Vec::new();
    for (number, value) in members(request) {
        let (1, Value::Bytes(resource_spans)) = (number, value) else {
            panic!("a request has resource_spans alone")
        };
        let mut resource = BTreeMap::new();
        for (number, value) in members(resource_spans) {
            match (number, value) {
                (1, Value::Bytes(message)) => {
                    for (number, value) in members(message) {
                        if let (1, Value::Bytes(pair)) = (number, value) {
                            resource.extend([attribute(pair)]);
                        }
                    }
                }
                (2, Value::Bytes(message)) => all.extend(scope_spans(message)),
                (other, _) => panic!("no member of ResourceSpans: {other}"),
            }
        }
        for span in &mut all {
            if span.resource.is_empty() {
                span.resource.clone_from(&resource);
            }
        }
    }
    all
}

fn scope_spans(message: &[u8]) -> Vec<Span> {
    let mut scope = (String::new(), String::new());
    let mut spans = Vec::new();
    for (number, value) in members(message) {
        match (number, value) {
            (1, Value::Bytes(message)) => {
                for (number, value) in members(message) {
                    match (number, value) {
                        (1, Value::Bytes(name)) => scope.0 = text(name),
                        (2, Value::Bytes(version)) => scope.1 = text(version),
                        (other, _) => panic!("no member of InstrumentationScope: {other}"),
                    }
                }
            }
            (2, Value::Bytes(message)) => spans.push(span(message)),
            (other, _) => panic!("no member of ScopeSpans: {other}"),
        }
    }
    for span in &mut spans {
        span.scope.clone_from(&scope);
    }
    spans
}

fn span(message: &[u8]) -> Span {
    let mut span = Span::default();
    for (number, value) in members(message) {
        match (number, value) {
            (1, Value::Bytes(id)) => span.trace_id = digits(id),
            (2, Value::Bytes(id)) => span.id = digits(id),
            (3, Value::Bytes(state)) => span.trace_state = text(state),
            (4, Value::Bytes(id)) => span.parent_id = digits(id),
            (5, Value::Bytes(name)) => span.name = text(name),
            (6, Value::Number(kind)) => span.kind = kind,
            (7, Value::Number(nanos)) => span.began_nanos = nanos,
            (8, Value::Number(nanos)) => span.ended_nanos = nanos,
            (9, Value::Bytes(pair)) => span.attributes.extend([attribute(pair)]),
            (13, Value::Bytes(link)) => span.links.push(link_of(link)),
            (15, Value::Bytes(status)) => {
                for (number, value) in members(status) {
                    match (number, value) {
                        (2, Value::Bytes(message)) => span.status_text = text(message),
                        (3, Value::Number(code)) => span.status = code,
                        (other, _) => panic!("no member of Status: {other}"),
                    }
                }
            }
            (16, Value::Number(flags)) => span.flags = flags,
            (other, _) => panic!("no member of Span: {other}"),
        }
    }
    assert_eq!((span.trace_id.len(), span.id.len()), (32, 16));
    span
}

fn link_of(message: &[u8]) -> (String, String) {
    let mut link = (String::new(), String::new());
    for (number, value) in members(message) {
        match (number, value) {
            (1, Value::Bytes(id)) => link.0 = digits(id),
            (2, Value::Bytes(id)) => link.1 = digits(id),
            (3, Value::Bytes(_)) | (6, Value::Number(_)) => {}
            (other, _) => panic!("no member of Link: {other}"),
        }
    }
    link
}

/// `KeyValue`.
fn attribute(message: &[u8]) -> (String, String) {
    let mut pair = (String::new(), String::new());
    for (number, value) in members(message) {
        match (number, value) {
            (1, Value::Bytes(key)) => pair.0 = text(key),
            (2, Value::Bytes(any)) => {
                for (number, value) in members(any) {
                    pair.1 = match (number, value) {
                        (1, Value::Bytes(string)) => text(string),
                        (2, Value::Number(is_so)) => (is_so == 1).to_string(),
                        (3, Value::Number(number)) => number.to_string(),
                        (other, _) => panic!("no value of an attribute: {other}"),
                    };
                }
            }
            (other, _) => panic!("no member of KeyValue: {other}"),
        }
    }
    pair
}
