//! Sources of kind `ingest` at the listener of the gateway or of the admin API: the rest of it goes on as it was.

use crate::admin::access::token;
use crate::gateway::upstream::Upstream;

use super::*;

/// The token that the gateway's path takes.
const TOKEN: &str = "0123456789abcdef";

/// Somebody who sends to this listener, and may.
fn client_of(lender: &str) -> Provider {
    match lender {
        "gateway" => Provider::new().showing(TOKEN),
        _ => Provider::new(),
    }
}

/// A site with a pipeline `orders` at another listener, which is at the address of the client.
fn lent(client: &Provider, upstream: &Upstream, lender: &str, store: &str, more: &str) -> Site {
    let tokens = { lender == "gateway" }.then_some("token_file = \"tokens\"\n");
    let more = &format!("{}{more}", tokens.unwrap_or_default());
    let effect = "effect = { kind = \"file\", path = \"orders.ndjson\" }";
    let site = of_effect(client, store, effect, more);
    let address = client.address();
    let table = match lender {
        "gateway" => format!(
            "[gateway]\nlisten = \"{address}\"\nupstream = \"{}\"\nconnect_timeout = \"500ms\"\n",
            upstream.url()
        ),
        _ => format!("[admin]\nlisten = \"{address}\"\n"),
    };
    let own = format!("kind = \"ingest\"\nlisten = \"{address}\"");
    let config = site.text("semel.toml");
    assert!(config.contains(&own), "{config}");
    let config = config.replace(&own, &format!("kind = \"ingest\"\nlisten = \"{lender}\""));
    site.write("semel.toml", format!("{table}{config}"));
    site.write("tokens", TOKEN);
    site
}

/// Sends a message that has the first sequence of its producer.
fn first(client: &Provider, producer: &str, more: &[(&str, &str)]) -> (u16, Value) {
    let identity = [
        ("Semel-Producer", producer),
        ("Semel-Epoch", "1"),
        ("Semel-Sequence", "1"),
    ];
    said(client.send("POST", PATH, &[&identity[..], more].concat(), b"{}"))
}

fn refused(answer: &(u16, Value), status: u16, code: &str) {
    let found = (answer.0, &answer.1["code"]);
    assert_eq!(found, (status, &json!(code)), "{}", answer.1);
}

#[test]
fn a_path_at_another_listener_takes_messages_and_the_rest_goes_on() {
    for (lender, store) in [
        ("gateway", "embedded:data"),
        ("gateway", "sqlite:semel.db"),
        ("admin", "embedded:data"),
        ("admin", "sqlite:semel.db"),
    ] {
        let (client, upstream) = (client_of(lender), Upstream::start());
        let site = lent(&client, &upstream, lender, store, "");
        site.semel(&["check"]);
        let mut running = start(&site, &client);
        let place = format!(
            "orders: takes messages at http://{}{PATH}",
            client.address()
        );
        wait_for("its place", || running.stderr().contains(&place));
        let send = |from, to| {
            said(send(
                &client,
                "billing-0a",
                1,
                from,
                &messages("billing", from..=to),
            ))
        };
        let taken = json!({"accepted": 3, "duplicates": 0, "next": 4});
        assert_eq!(send(1, 3), (200, taken), "{lender}");
        let known = json!({"accepted": 1, "duplicates": 3, "next": 5});
        assert_eq!(send(1, 4), (200, known), "{lender}");
        refused(&send(7, 7), 409, "sequence-gap");
        if lender == "gateway" {
            // Its identity is for more than the connection to the gateway.
            let named = ("Connection", "semel-producer, semel-epoch, semel-sequence");
            refused(&first(&client, "till-0a", &[named]), 400, "invalid-input");
            let nobody = ("Authorization", "Bearer fedcba9876543210");
            refused(&first(&client, "till-0a", &[nobody]), 401, "unauthorized");
        }
        // A key is one of the journal, and makes no operation of the gateway.
        for (accepted, duplicates) in [(1, 0), (0, 1)] {
            let reply = client.send("POST", PATH, &[("Idempotency-Key", "k-1")], b"{\"key\":1}");
            let expected = json!({"accepted": accepted, "duplicates": duplicates});
            assert_eq!(said(reply), (200, expected), "{lender}");
        }
        let status = |method, path: &str| {
            let reply = client.send(method, path, &[("Idempotency-Key", "k-1")], b"{}");
            reply.expect("an answer").status
        };
        if lender == "gateway" {
            // Nor is it one of the API's.
            assert_eq!(status("POST", "/v1/ingest/orders/"), 201);
            assert_eq!(status("POST", "/charges"), 422);
            assert_eq!(status("POST", "//v1/ingest/orders"), 400);
            assert_eq!(upstream.arrivals().len(), 1, "{:?}", upstream.arrivals());
        } else {
            for (path, expected) in [("/healthz", 200), ("/v1/status", 200), ("/", 200)] {
                assert_eq!(status("GET", path), expected, "{path}");
            }
            assert_eq!(status("POST", "/v1/ingest/orders/"), 404);
        }
        wait_for("the effects", || has_lines(&site, 5));
        running.signal(Signal::TERM);
        running.wait().done().summary().is(&[("applied", 5)]);
        let mut expected = messages("billing", 1..=4);
        expected.push("{\"key\":1}".to_owned());
        expected.sort_unstable();
        assert_eq!(site.sorted_lines("orders.ndjson"), expected, "{lender}");
    }
}

#[test]
fn what_another_listener_answered_survives_kills() {
    for lender in ["gateway", "admin"] {
        let (client, upstream) = (client_of(lender), Upstream::start());
        let site = lent(&client, &upstream, lender, "embedded:data", "");
        complete_whatever_is_killed(&site, &client, "embedded:data");
    }
}

/// Sends the head of a request, and waits until its body is wanted: the worker has it in hand.
fn in_hand(client: &Provider, lender: &str, body_len: usize) -> TcpStream {
    let mut stream = TcpStream::connect(client.address()).expect("a connection");
    let token = match lender {
        "gateway" => format!("Authorization: Bearer {TOKEN}\r\n"),
        _ => String::new(),
    };
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nSemel-Producer: late-0a\r\nSemel-Epoch: 1\r\nSemel-Sequence: 1\r\n\
         {token}Expect: 100-continue\r\nConnection: close\r\nContent-Length: {body_len}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut said = [0; 25];
    stream.read_exact(&mut said).expect("an answer");
    assert_eq!(&said, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[test]
fn a_request_in_hand_at_the_stop_is_answered() {
    for lender in ["gateway", "admin"] {
        let (client, upstream) = (client_of(lender), Upstream::start());
        let site = lent(&client, &upstream, lender, "embedded:data", "");
        let mut running = start(&site, &client);
        let before = first(&client, "early-0a", &[]);
        assert_eq!(before.0, 200, "{}", before.1);
        let message = b"{\"late\":1}";
        let mut late = in_hand(&client, lender, message.len());
        running.signal(Signal::TERM);
        wait_for("the stop", || running.stderr().contains("stopping: "));
        late.write_all(message).expect("sent");
        let mut answer = String::new();
        late.read_to_string(&mut answer).expect("an answer");
        let is_taken = answer.starts_with("HTTP/1.1 200 ");
        let is_refused = answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: ");
        assert!(is_taken || is_refused, "{lender}: {answer:?}");
        running.wait().done();
        // What was answered with success is there, and the rest comes again.
        let running = start(&site, &client);
        let identity = [
            ("Semel-Producer", "late-0a"),
            ("Semel-Epoch", "1"),
            ("Semel-Sequence", "1"),
        ];
        let again = said(client.send("POST", PATH, &identity, message));
        let known = json!(u32::from(is_taken));
        assert_eq!((again.0, &again.1["duplicates"]), (200, &known), "{lender}");
        wait_for("the effects", || has_lines(&site, 2));
        running.signal(Signal::TERM);
        running.wait().done();
        assert_eq!(site.sorted_lines("orders.ndjson"), ["{\"late\":1}", "{}"]);
    }
}

#[test]
fn no_web_page_sends_messages_to_another_listener() {
    for lender in ["gateway", "admin"] {
        let (client, upstream) = (Provider::new(), Upstream::start());
        let site = lent(&client, &upstream, lender, "embedded:data", "");
        let running = start(&site, &client);
        let own = format!("http://localhost:{}", client.address().port());
        let bare = "http://localhost".to_owned();
        // A page has no token of the gateway's path.
        let (status, code) = match lender {
            "gateway" => (401, "unauthorized"),
            _ => (403, "origin-refused"),
        };
        for origin in [&*own, &*bare, "https://evil.example", "null"] {
            for more in [
                &[("Origin", origin)][..],
                &[("Origin", origin), ("Sec-Fetch-Site", "same-origin")],
                &[("Origin", origin), ("Cookie", "semel_token=semel_0")],
            ] {
                let answer = first(&client, "page-0a", more);
                refused(&answer, status, code);
            }
        }
        if lender == "admin" {
            for site in ["same-origin", "cross-site", "none"] {
                let answer = first(&client, "page-0a", &[("Sec-Fetch-Site", site)]);
                refused(&answer, 403, "origin-refused");
            }
        }
        // Nor does a name of somebody else lead here.
        let mut stream = TcpStream::connect(client.address()).expect("a connection");
        let request = format!(
            "POST {PATH} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (status, code) = match lender {
            "gateway" => (401, "unauthorized"),
            _ => (403, "host-refused"),
        };
        let begins = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&begins), "{lender}: {answer}");
        assert!(answer.contains(code), "{lender}: {answer}");
        has_no_producers(&site);
        running.signal(Signal::TERM);
        running.wait().done().summary().is(&[("deliveries", 0)]);
        assert_eq!(upstream.arrivals().len(), 0);
    }
}

#[test]
fn the_admin_api_knows_who_sends_by_its_own_tokens() {
    let (client, upstream) = (Provider::new(), Upstream::start());
    let site = lent(
        &client,
        &upstream,
        "admin",
        "embedded:data",
        "require = true",
    );
    let till = token(&site, "till-7 --role operator");
    let viewer = token(&site, "eyes --role viewer");
    let confined = token(&site, "acme --role operator --tenant acme");
    let running = start(&site, &client);
    let by = |token: &str| first(&client, "billing-0a", &[("Authorization", token)]);
    refused(&by(&viewer), 403, "forbidden");
    refused(&by(&confined), 403, "forbidden");
    refused(&by("Bearer semel_00"), 401, "unauthorized");
    refused(&by("Basic eDp5"), 401, "unauthorized");
    has_no_producers(&site);
    assert_eq!(by(&till).0, 200);
    let missing = client.send("POST", PATH, &[("Authorization", &till)], b"{}");
    refused(&said(missing), 400, "producer-missing");
    // At a loopback address nobody needs a token.
    let missing = client.send("POST", PATH, &[], b"{}");
    refused(&said(missing), 400, "producer-missing");
    let metrics = client.send("GET", "/metrics", &[], b"").expect("metrics");
    let metrics = String::from_utf8(metrics.body).expect("text");
    for of in ["till-7", "loopback"] {
        let series = format!(
            "semel_ingest_refusals_total{{pipeline=\"orders\",reason=\"producer-missing\",client=\"{of}\"}} 1"
        );
        assert!(
            metrics.lines().any(|it| it == series),
            "{series}\n{metrics}"
        );
    }
    running.signal(Signal::TERM);
    running.wait().done();
}

#[test]
fn a_path_that_another_listener_cannot_lend_is_refused_by_check_and_at_the_start() {
    let (client, upstream) = (Provider::new(), Upstream::start());
    for (lender, change, says) in [
        (
            "gateway",
            ("[store]", "[[gateway.routes]]\npath = \"/v1/*\"\n[store]"),
            "is a path that the route of `/v1/*` has",
        ),
        (
            "gateway",
            ("[store]", "claims = true\n[store]"),
            "is a path that the claim API (`claims = true`) has",
        ),
        (
            "admin",
            (PATH, "/v1/keys"),
            "must begin with `/v1/ingest/` at the admin's listener",
        ),
        (
            "admin",
            ("listen = \"admin\"", "listen = \"gateway\""),
            "there is no such listener: set `gateway.listen`",
        ),
    ] {
        let site = lent(&client, &upstream, lender, "embedded:data", "");
        let config = site.text("semel.toml").replace(change.0, change.1);
        let config = if change.1.starts_with("claims") {
            config.replace(PATH, "/v1/claims/orders")
        } else {
            config
        };
        site.write("semel.toml", config);
        for verb in ["check", "run"] {
            let ended = site.semel(&[verb]).code(2);
            ended.says("pipelines.orders.source").says(says);
        }
    }
    // Whoever reaches a gateway is not one who may send, wherever it is.
    let site = lent(&client, &upstream, "gateway", "embedded:data", "");
    let config = site
        .text("semel.toml")
        .replace("token_file = \"tokens\"\n", "");
    site.write("semel.toml", config);
    let open = site.semel(&["check"]).code(2);
    open.says("pipelines.orders.source.listen: ")
        .says("set `token_file`");
    // A gateway is not served where one pipeline runs alone.
    let site = lent(&client, &upstream, "gateway", "embedded:data", "");
    let alone = site.semel(&["run", "--pipeline", "orders"]).code(2);
    alone
        .says("pipelines.orders.source.listen: is `gateway`")
        .says("--pipeline");
}
