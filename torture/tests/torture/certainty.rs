//! A provider that charges, answers too late, and then gives another answer: the record must not say that nothing
//! happened. The provider's books are the oracle, and the table of all answers, kinds and classes is in Semel's
//! book.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use semel_conformance::http::ArrivedRequest;
use torture::Site;

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn the_record_agrees_with_the_book_of_a_provider_that_charges_and_answers_late() {
    // Nine at once would start 81 programs, and none of them would call in time.
    let play_kind = |(kind, effect): (&'static str, &'static str)| {
        let rows = CLASSES.map(|(class, settings)| (kind, class, play(effect, settings)));
        rows.into_iter()
    };
    let kinds = KINDS.map(|kind| thread::spawn(move || play_kind(kind)));
    let mut table = header();
    let rows = kinds
        .into_iter()
        .flat_map(|kind| kind.join().expect("runs that were played to their end"));
    for (kind, class, found) in rows {
        let _ = write!(table, "| `{kind}`, {class} |");
        for (id, _) in ANSWERS {
            let (state, times) = &found[id];
            let agrees = match state.as_str() {
                "completed" => *times == 1,
                "dead" => *times == 0,
                "in_doubt" => *times <= 1,
                _ => false,
            };
            let told = format!("{kind}, {class}, {id}: {state}, charged {times} times");
            assert!(agrees, "the record and the book disagree: {told}");
            let state = state.replace('_', " ");
            let charged = if *times > 0 { "charged" } else { "not charged" };
            let _ = write!(table, " {state}, {charged} |");
        }
        table.push('\n');
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/src/concepts/doubt.md");
    let text = std::fs::read_to_string(&page).expect("the page of the book");
    let (before, rest) = text.split_once(BEGIN).expect("where the table begins");
    let (shown, after) = rest.split_once(END).expect("where the table ends");
    if std::env::var_os("SEMEL_WRITE_TABLE").is_some() {
        let text = format!("{before}{BEGIN}\n\n{table}\n{END}{after}");
        std::fs::write(&page, text).expect("the page is written");
    } else {
        assert_eq!(shown.trim(), table.trim(), "the table of doubt.md");
    }
}

/// Sends every message with its answer through an effect; returns the states on record, and the number of charges
/// of each.
fn play(effect: &str, class: &str) -> BTreeMap<&'static str, (String, u32)> {
    let provider = Provider::start();
    let effect = effect.replace("ADDRESS", &provider.address);
    let config = format!("{PIPELINE}{effect}{class}");
    let lines: Vec<_> = ANSWERS
        .iter()
        .map(|(id, _)| format!("{{\"id\":\"{id}\"}}\n"))
        .collect();
    let site = Site::with(&[
        ("semel.toml", &config),
        ("payments.ndjson", &lines.concat()),
        ("call.py", CALL),
        ("child.py", CHILD),
    ]);
    let summary = site.run_to_the_end();
    summary.check_sum(ANSWERS.len() as u64);
    let (ended, listed) = site.start(&["keys", "list", "--output", "jsonl"]).wait();
    assert!(ended.success(), "{}", site.text("stderr.log"));
    let states: BTreeMap<String, String> = listed
        .lines()
        .map(|line| {
            let entry: serde_json::Value = serde_json::from_str(line).expect("an entry");
            let text = |name: &str| entry[name].as_str().expect("a text").to_owned();
            (text("key"), text("state"))
        })
        .collect();
    let charges = provider.charges();
    ANSWERS
        .iter()
        .map(|(id, _)| {
            let state = states.get(*id).cloned().unwrap_or_else(|| "absent".into());
            (*id, (state, charges.get(*id).copied().unwrap_or(0)))
        })
        .collect()
}

fn header() -> String {
    let mut text = "| Effect |".to_owned();
    for (_, head) in ANSWERS {
        let _ = write!(text, " {head} |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(ANSWERS.len()));
    text.push('\n');
    text
}

/// Charges at the first request for an id, as the id says, and answers as the id says.
struct Provider {
    address: String,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    arrivals: BTreeMap<String, u32>,
    charges: BTreeMap<String, u32>,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let book = Arc::<Mutex<Book>>::default();
        let its = Arc::clone(&book);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let book = Arc::clone(&its);
                thread::spawn(move || serve(&stream, &book));
            }
        });
        Self { address, book }
    }

    fn charges(&self) -> BTreeMap<String, u32> {
        self.book.lock().expect("no panic").charges.clone()
    }
}

/// Answers one request and closes the connection.
fn serve(mut stream: &TcpStream, book: &Mutex<Book>) {
    let Some(body) = body_of(stream) else {
        return;
    };
    let request: serde_json::Value = serde_json::from_str(&body).expect("a payment");
    let id = request["id"].as_str().expect("an id").to_owned();
    let (is_late, answer) = id.split_once('-').expect("when, and what");
    let is_late = is_late == "late";
    let is_first = {
        let mut book = book.lock().expect("no panic");
        let arrivals = book.arrivals.entry(id.clone()).or_default();
        *arrivals += 1;
        let is_first = *arrivals == 1;
        // A declined card is not charged, and neither is a request that is turned away.
        if is_first && is_late && !answer.starts_with("402") {
            *book.charges.entry(id.clone()).or_default() += 1;
        }
        is_first
    };
    if is_first && is_late {
        thread::sleep(LATE);
    }
    let (code, head) = match answer {
        "closed" => return,
        "200stored" => ("200", "Idempotent-Replayed: true\r\n"),
        "402stored" => ("402", "Idempotent-Replayed: true\r\n"),
        code => (code, ""),
    };
    let text =
        format!("HTTP/1.1 {code} X\r\n{head}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}");
    // A client that no longer waits does not get it.
    let _ = stream.write_all(text.as_bytes());
}

fn body_of(stream: &TcpStream) -> Option<String> {
    let request = ArrivedRequest::read(&mut BufReader::new(stream)).ok()??;
    String::from_utf8(request.body).ok()
}

/// The answer that follows the charge that was answered too late, or that comes instead of it.
const ANSWERS: [(&str, &str); 9] = [
    ("late-409", "late, then 409"),
    ("late-401", "late, then 401"),
    ("late-404", "late, then 404"),
    ("late-500", "late, then 500"),
    ("late-closed", "late, then a closed socket"),
    ("late-200stored", "late, then the stored 200"),
    ("late-402stored", "declined late, then the stored 402"),
    ("late-402", "declined late, then 402"),
    ("now-401", "401 at once"),
];

/// Longer than the time limit of the effects.
const LATE: Duration = Duration::from_secs(20);

const KINDS: [(&str, &str); 3] = [
    (
        "http",
        "kind = \"http\"\nurl = \"http://ADDRESS/charge\"\ntimeout = \"8s\"\ndecisive = \"402\"\n",
    ),
    (
        "exec",
        "kind = \"exec\"\ncommand = [\"python3\", \"-S\", \"call.py\", \"ADDRESS\"]\ntimeout = \"8s\"\n",
    ),
    (
        "jsonl",
        "kind = \"exec\"\nprotocol = \"jsonl\"\ncommand = [\"python3\", \"-S\", \"child.py\", \"ADDRESS\"]\ntimeout = \"8s\"\n",
    ),
];

const CLASSES: [(&str, &str); 3] = [
    ("keyed", "class = \"keyed\"\nprovider_window = \"24h\"\n"),
    ("`repeat`", "on_doubt = \"repeat\"\n"),
    ("`park`", "on_doubt = \"park\"\n"),
];

const PIPELINE: &str = r#"
[store]
url = "embedded:data"

[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
concurrency = 16
retry = { attempts = 10, backoff = "20ms..50ms" }

[pipelines.payments.effect]
"#;

/// A command as people write it: any unexpected answer ends it with exit code 1.
const CALL: &str = r#"
import http.client, os, sys

connection = http.client.HTTPConnection(sys.argv[1])
key = os.environ["SEMEL_IDEMPOTENCY_KEY"]
connection.request("POST", "/charge", sys.stdin.read(), {"Idempotency-Key": key})
answer = connection.getresponse()
if answer.status in (409, 429, 503):
    sys.exit(75)
if answer.status != 200:
    sys.exit(f"HTTP {answer.status}")
print("charged", end="")
"#;

/// A child that calls for each request on a thread of its own, and knows a stored answer.
const CHILD: &str = r#"
import http.client, json, sys, threading

# One answer to a line, whoever prints it.
printing = threading.Lock()

def call(request):
    answer = {"id": request["id"]}
    try:
        connection = http.client.HTTPConnection(sys.argv[1])
        key = request["idempotency_key"]
        connection.request("POST", "/charge", json.dumps(request["payload"]), {"Idempotency-Key": key})
        got = connection.getresponse()
        stored = got.getheader("Idempotent-Replayed") == "true"
        if got.status == 200:
            answer["status"] = "done"
        elif got.status in (409, 429, 503):
            answer.update(status="retry", error=f"HTTP {got.status}")
        elif got.status >= 500:
            answer.update(status="unknown", error=f"HTTP {got.status}")
        else:
            answer.update(status="dead", error=f"HTTP {got.status}", decisive=stored)
    except Exception as error:
        answer.update(status="unknown", error=repr(error))
    with printing:
        print(json.dumps(answer), flush=True)

for line in sys.stdin:
    threading.Thread(target=call, args=(json.loads(line),), daemon=True).start()
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
"#;

const BEGIN: &str = "<!-- certainty: begin -->";
const END: &str = "<!-- certainty: end -->";
