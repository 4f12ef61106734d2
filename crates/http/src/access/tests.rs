mod cookies;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use axum::Extension;
use axum::http::{Method, Uri, Version};
use axum::routing::post;
use hyper::body::Frame;
use semel_conformance::TestClock;
use semel_core::{Entropy, Timestamp};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Duration;
use tower::ServiceExt;

use super::*;
use crate::caller::{Role, Tenant};
use crate::tokens::{Secret, Token, TokenFile};

struct Counting(Mutex<u8>);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let mut count = self.0.lock().expect("no panic");
        *count += 1;
        bytes.fill(*count);
    }
}

/// A router that tells its caller, behind the rules of a listener.
struct Door {
    router: Router,
    clock: TestClock,
    secrets: Vec<Secret>,
    known: watch::Sender<Arc<Tokens>>,
}

/// The name, the role and the end of the tokens that a door knows.
type Known<'a> = &'a [(&'a str, Role, Option<&'a str>, Option<Timestamp>)];

fn door(address: &str, hosts: &[&str], tokens: Known<'_>) -> Door {
    door_with(address, hosts, tokens, false)
}

fn door_with(address: &str, hosts: &[&str], tokens: Known<'_>, has_pages: bool) -> Door {
    let folder = tempfile::tempdir().expect("a folder");
    let file = TokenFile::new(folder.path().join("tokens.json"));
    let (clock, entropy) = (TestClock::new(), Counting(Mutex::new(0)));
    let mut secrets = Vec::new();
    for (name, role, tenant, expires) in tokens {
        let tenant = tenant.map(Tenant::new);
        let (token, secret) = Token::new(name, *role, tenant, *expires, &clock, &entropy);
        file.add(token).expect("written");
        secrets.push(secret);
    }
    let (known, tokens) = watch::channel(Arc::new(file.read().expect("sound")));
    let hosts: Vec<Box<str>> = hosts.iter().map(|host| (*host).into()).collect();
    let address = address.parse().expect("an address");
    let access = Access::new(address, &hosts, tokens, MOST, Arc::new(clock.clone()));
    let access = if has_pages {
        access.with_cookies()
    } else {
        access
    };
    let tell = async |Extension(caller): Extension<Caller>, body: Bytes| {
        format!("{} {} {}", caller.name, caller.role, body.len())
    };
    let linger = async |body: Bytes| {
        sleep(Duration::from_secs(600)).await;
        body.len().to_string()
    };
    let routes = Router::new().route("/", post(tell));
    Door {
        router: access.protect(routes.route("/lingers", post(linger))),
        clock,
        secrets,
        known,
    }
}

impl Door {
    /// Knows one more token from now on.
    fn learns(&self, token: Token) {
        self.known.send_modify(|known| {
            let file = tempfile::tempdir().expect("a folder");
            let file = TokenFile::new(file.path().join("tokens.json"));
            for token in known.iter() {
                file.add(token.clone()).expect("written");
            }
            file.add(token).expect("written");
            *known = Arc::new(file.read().expect("what was written is read"));
        });
    }

    async fn asked(&self, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
        self.asked_at("/", headers, body).await
    }

    async fn asked_at(
        &self,
        path: &'static str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Response {
        let mut request = Request::new(body.into());
        *request.uri_mut() = Uri::from_static(path);
        *request.method_mut() = Method::POST;
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().expect("a name");
            let value = value.parse().expect("a value");
            request.headers_mut().append(name, value);
        }
        let answered: Result<_, Infallible> = self.router.clone().oneshot(request).await;
        answered.expect("an answer")
    }

    async fn status(&self, headers: &[(&str, &str)]) -> u16 {
        self.asked(headers, "{}").await.status().as_u16()
    }

    fn bearer(&self, at: usize) -> String {
        format!("Bearer {}", self.secrets[at].as_str())
    }
}

async fn text(response: Response) -> String {
    let body = response.into_body().collect().await.expect("a body");
    String::from_utf8(body.to_bytes().to_vec()).expect("text")
}

async fn problem(response: Response) -> Value {
    serde_json::from_str(&text(response).await).expect("a problem")
}

async fn code(response: Response) -> String {
    problem(response).await["code"]
        .as_str()
        .expect("a code")
        .to_owned()
}

const LOCAL: (&str, &str) = ("host", "127.0.0.1:8181");
const MOST: usize = 256 << 10;

#[tokio::test]
async fn a_loopback_address_needs_no_token_but_one_that_is_sent_must_be_right() {
    let door = door(
        "127.0.0.1:8181",
        &[],
        &[("billing", Role::Viewer, None, None)],
    );
    let answer = door.asked(&[LOCAL], "{}").await;
    assert_eq!(text(answer).await, "loopback admin 2");
    let right = door.bearer(0);
    let answer = door.asked(&[LOCAL, ("authorization", &right)], "{}").await;
    assert_eq!(text(answer).await, "billing viewer 2");
    let lower = right.replace("Bearer", "bearer");
    assert_eq!(door.status(&[LOCAL, ("authorization", &lower)]).await, 200);
    for wrong in [
        "Bearer semel_00",
        "Basic YTpi",
        "Bearer",
        "Bearer ",
        &right[7..],
    ] {
        let answer = door.asked(&[LOCAL, ("authorization", wrong)], "{}").await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{wrong}");
        let challenge = answer.headers()[WWW_AUTHENTICATE].to_str().expect("text");
        assert!(challenge.starts_with("Bearer "), "{challenge}");
        assert_eq!(code(answer).await, "unauthorized");
    }
    let twice = [LOCAL, ("authorization", &right), ("authorization", &right)];
    assert_eq!(door.status(&twice).await, 401);
}

#[tokio::test]
async fn any_other_address_needs_one() {
    for address in ["0.0.0.0:8181", "[::]:8181", "192.0.2.1:8181"] {
        let door = door(
            address,
            &[],
            &[("billing", Role::Operator, Some("acme"), None)],
        );
        let answer = door.asked(&[LOCAL], "{}").await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{address}");
        assert_eq!(answer.headers()[WWW_AUTHENTICATE], "Bearer realm=\"semel\"");
        let right = door.bearer(0);
        assert_eq!(door.status(&[LOCAL, ("authorization", &right)]).await, 200);
    }
    for address in [
        "127.0.0.1:0",
        "127.1.2.3:0",
        "[::1]:0",
        "[::ffff:127.0.0.1]:0",
    ] {
        assert!(
            !needs_token(address.parse().expect("an address")),
            "{address}"
        );
    }
}

#[tokio::test]
async fn the_holder_of_a_certificate_is_known_by_its_subject() {
    for address in ["0.0.0.0:8181", "127.0.0.1:8181"] {
        let door = door(address, &[], &[("first", Role::Admin, None, None)]);
        let end = door.clock.now().plus(Duration::from_secs(60));
        let subject = "CN=billing,O=Acme";
        let token = Token::of_subject(
            "billing",
            Role::Viewer,
            None,
            Some(end),
            &door.clock,
            subject,
        );
        door.learns(token);
        let ask = async |subject: &str, more: &[(&str, &str)]| {
            let certificate = ClientCertificate::named(subject, "billing");
            let shows = door.router.clone().layer(Extension(certificate));
            let mut request = Request::new(Body::from("{}"));
            *request.method_mut() = Method::POST;
            for (name, value) in [&[LOCAL], more].concat() {
                let name: axum::http::HeaderName = name.parse().expect("a name");
                request
                    .headers_mut()
                    .append(name, value.parse().expect("a value"));
            }
            let Ok(answer) = shows.oneshot(request).await;
            answer
        };
        assert_eq!(text(ask(subject, &[]).await).await, "billing viewer 2");
        for other in ["CN=billing", "CN=billing,O=acme", "O=Acme,CN=billing", ""] {
            let refused = ask(other, &[]).await;
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{other}");
        }
        // What is sent goes before what is shown, and must be right.
        let right = door.bearer(0);
        let sent = ask(subject, &[("authorization", &right)]).await;
        assert_eq!(text(sent).await, "first admin 2");
        let wrong = ask(subject, &[("authorization", "Bearer semel_00")]).await;
        assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
        door.clock.advance(Duration::from_secs(60));
        let late = problem(ask(subject, &[]).await).await;
        assert!(late["detail"].to_string().contains("expired"), "{late}");
    }
}

#[tokio::test]
async fn an_expired_or_revoked_token_is_refused() {
    let end = TestClock::new().now().plus(Duration::from_secs(60));
    let door = door(
        "0.0.0.0:1",
        &[],
        &[("billing", Role::Operator, None, Some(end))],
    );
    let right = door.bearer(0);
    let headers = [LOCAL, ("authorization", &*right)];
    assert_eq!(door.status(&headers).await, 200);
    door.clock.advance(Duration::from_secs(60));
    let answer = door.asked(&headers, "{}").await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    assert!(text(answer).await.contains("expired"));
    door.known.send_replace(Arc::default());
    let answer = door.asked(&headers, "{}").await;
    assert!(text(answer).await.contains("not known"));
}

#[tokio::test(start_paused = true)]
async fn who_tries_tokens_is_slowed_down_and_the_right_ones_are_not() {
    let door = door("0.0.0.0:1", &[], &[("billing", Role::Operator, None, None)]);
    let began = tokio::time::Instant::now();
    for _ in 0..10 {
        assert_eq!(
            door.status(&[LOCAL, ("authorization", "Bearer x")]).await,
            401
        );
    }
    // The clock of the door stands still, so each waits for all before it.
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    let began = tokio::time::Instant::now();
    let right = door.bearer(0);
    assert_eq!(door.status(&[LOCAL, ("authorization", &right)]).await, 200);
    assert_eq!(began.elapsed(), Duration::ZERO);
    let mut last = None;
    for _ in 0..10 {
        let answer = door
            .asked(&[LOCAL, ("authorization", "Bearer x")], "{}")
            .await;
        last = Some(answer);
    }
    let last = last.expect("an answer");
    assert_eq!(last.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(last.headers().contains_key(RETRY_AFTER));
    assert_eq!(code(last).await, "throttled");
}

#[tokio::test]
async fn a_loopback_address_is_called_by_its_own_names_alone() {
    let door = door(
        "127.0.0.1:8181",
        &["claims.internal"],
        &[("a", Role::Admin, None, None)],
    );
    for host in [
        "127.0.0.1:8181",
        "127.0.0.1",
        "localhost:9999",
        "LOCALHOST",
        "[::1]:8181",
        "Claims.Internal:8181",
    ] {
        assert_eq!(door.status(&[("host", host)]).await, 200, "{host}");
    }
    let right = door.bearer(0);
    for host in [
        "evil.example",
        "evil.example:8181",
        "localhost.evil.example",
        "192.0.2.1",
    ] {
        for headers in [
            &[("host", host)][..],
            &[("host", host), ("authorization", &right)],
        ] {
            let answer = door.asked(headers, "{}").await;
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{host}");
            assert_eq!(code(answer).await, "host-refused");
        }
    }
    assert_eq!(door.status(&[]).await, 400, "no Host");
    assert_eq!(door.status(&[LOCAL, LOCAL]).await, 400, "two");
    assert_eq!(door.status(&[("host", "a b")]).await, 400, "no name");
}

#[tokio::test]
async fn another_address_is_called_by_any_name_unless_some_are_set() {
    let known: Known<'_> = &[("a", Role::Admin, None, None)];
    for (hosts, host, status) in [
        (&[][..], "claims.example", 200),
        (&["claims.example"], "claims.example:443", 200),
        (&["claims.example"], "localhost", 200),
        (&["claims.example"], "evil.example", 403),
    ] {
        let door = door("0.0.0.0:1", hosts, known);
        let right = door.bearer(0);
        let headers = [("host", host), ("authorization", &*right)];
        assert_eq!(door.status(&headers).await, status, "{hosts:?} {host}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let door = door("127.0.0.1:8181", &[], &[]);
    for (origin, status) in [
        ("http://127.0.0.1:8181", 200),
        ("HTTPS://127.0.0.1:8181", 200),
        ("http://127.0.0.1:3000", 403),
        ("http://localhost:8181", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
    ] {
        let answer = door.asked(&[LOCAL, ("origin", origin)], "{}").await;
        assert_eq!(answer.status().as_u16(), status, "{origin}");
        if status == 403 {
            assert_eq!(code(answer).await, "origin-refused");
        }
    }
    let two = [
        LOCAL,
        ("origin", "http://127.0.0.1:8181"),
        ("origin", "null"),
    ];
    assert_eq!(door.status(&two).await, 403);
}

#[tokio::test]
async fn a_body_is_read_whole_up_to_the_limit() {
    let door = door("127.0.0.1:8181", &[], &[]);
    let answer = door.asked(&[LOCAL], vec![b'x'; MOST]).await;
    assert_eq!(text(answer).await, format!("loopback admin {MOST}"));
    let unsized_body = |pieces| {
        Body::new(Pieces {
            left: pieces,
            ends: true,
        })
    };
    let answer = door.asked(&[LOCAL], unsized_body(200)).await;
    assert_eq!(text(answer).await, "loopback admin 200000");
    for body in [
        Body::from(vec![b'x'; MOST + 1]),
        unsized_body(MOST / 1_000 + 1),
    ] {
        let answer = door.asked(&[LOCAL], body).await;
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(code(answer).await, "body-too-large");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_not_let_in_keeps_no_place() {
    let door = door("10.0.0.1:8181", &[], &[("ada", Role::Viewer, None, None)]);
    let began = Instant::now();
    let refused = door.asked(&[LOCAL], Body::new(SILENT)).await;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers()[CONNECTION], "close");
    assert!(began.elapsed() < STRANGER * 2, "{:?}", began.elapsed());
    let token = door.bearer(0);
    let headers = [LOCAL, ("authorization", &*token)];
    let answer = door.asked(&headers, "{}").await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.headers().contains_key(CONNECTION));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for_long() {
    let door = door("127.0.0.1:8181", &[], &[]);
    let answer = door.asked(&[LOCAL], Body::new(SILENT)).await;
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    let problem = problem(answer).await;
    assert_eq!(problem["code"], "timeout");
    assert_eq!(problem["certainty"], "not_applied");
}

/// Sends requests that are not answered soon.
async fn many(door: &Arc<Door>, path: &'static str, body: fn() -> Body) -> JoinSet<Response> {
    let mut sent = JoinSet::new();
    for _ in 0..MOST_LARGE {
        let door = Arc::clone(door);
        sent.spawn(async move { door.asked_at(path, &[LOCAL], body()).await });
    }
    sleep(Duration::from_millis(10)).await;
    sent
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_come_take_no_place_of_large_ones() {
    let door = Arc::new(door("127.0.0.1:8181", &[], &[]));
    let silent = many(&door, "/", || Body::new(SILENT)).await;
    let began = Instant::now();
    assert_eq!(door.status(&[LOCAL]).await, 200);
    let answer = door.asked(&[LOCAL], vec![b'x'; 100_000]).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(began.elapsed(), Duration::ZERO);
    for answer in silent.join_all().await {
        assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_body_gives_its_place_back_once_it_is_parsed() {
    let door = Arc::new(door("127.0.0.1:8181", &[], &[]));
    let mut lingering = many(&door, "/lingers", || vec![b'x'; 100_000].into()).await;
    let began = Instant::now();
    let answer = door.asked(&[LOCAL], vec![b'x'; 100_000]).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(lingering.try_join_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_large_body_without_a_place_is_to_come_again() {
    let door = Arc::new(door("127.0.0.1:8181", &[], &[]));
    let endless = || {
        Body::new(Pieces {
            left: 100,
            ends: false,
        })
    };
    let slow = many(&door, "/", endless).await;
    let answer = door.asked(&[LOCAL], vec![b'x'; 100_000]).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()[RETRY_AFTER], "1");
    let refused = problem(answer).await;
    assert_eq!(refused["code"], "throttled");
    assert_eq!(refused["certainty"], "not_applied");
    assert_eq!(door.status(&[LOCAL]).await, 200, "a small one needs none");
    for answer in slow.join_all().await {
        assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    }
    let answer = door.asked(&[LOCAL], vec![b'x'; 100_000]).await;
    assert_eq!(answer.status(), StatusCode::OK, "their places are free");
}

/// A body of unknown length, in pieces of a thousand bytes.
struct Pieces {
    left: usize,
    ends: bool,
}

/// The body that does not come.
const SILENT: Pieces = Pieces {
    left: 0,
    ends: false,
};

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match (self.left, self.ends) {
            (0, true) => Poll::Ready(None),
            (0, false) => Poll::Pending,
            (left, _) => {
                self.left = left - 1;
                Poll::Ready(Some(Ok(Frame::data(vec![b'x'; 1_000].into()))))
            }
        }
    }
}

#[test]
fn a_listener_without_pages_is_called_by_no_page_at_all() {
    let hosts = Hosts::new(&[], true);
    let programs = hosts.clone().without_pages();
    let check = |hosts: &Hosts, headers: &[(&str, &str)], version| {
        let mut request = Request::new(());
        *request.version_mut() = version;
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().expect("a name");
            let value = value.parse().expect("a value");
            request.headers_mut().append(name, value);
        }
        let checked = hosts.check(&request.into_parts().0);
        checked.map_err(|refused| refused.code())
    };
    let (old, new) = (Version::HTTP_10, Version::HTTP_11);
    let own = [LOCAL, ("origin", "http://127.0.0.1:8181")];
    assert_eq!(check(&hosts, &own, new), Ok(()));
    assert_eq!(check(&programs, &own, new), Err("origin-refused"));
    assert_eq!(check(&programs, &[LOCAL], new), Ok(()));
    let evil = [("host", "evil.example")];
    assert_eq!(check(&programs, &evil, new), Err("host-refused"));
    // A client that knows no names.
    assert_eq!(check(&programs, &[], old), Ok(()));
    assert_eq!(check(&programs, &own[1..], old), Err("origin-refused"));
}

#[tokio::test]
async fn a_service_that_reads_bodies_itself_knows_its_caller_first() {
    let (known, tokens) = watch::channel(Arc::new(Tokens::default()));
    let clock = Arc::new(TestClock::new());
    let of = |address: &str| {
        let address = address.parse().expect("an address");
        let access = Access::new(address, &[], tokens.clone(), 10, clock.clone());
        let tell = async |Extension(caller): Extension<Caller>, body: Body| {
            let length = body.size_hint().exact();
            format!("{} {length:?}", caller.name)
        };
        access.protect_unread(Router::new().route("/", post(tell)))
    };
    let ask = async |router: Router, headers: &[(&str, &str)]| {
        // It is longer than the rules would read.
        let mut request = Request::new(Body::from("x".repeat(1_000)));
        *request.method_mut() = Method::POST;
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().expect("a name");
            let value = value.parse().expect("a value");
            request.headers_mut().append(name, value);
        }
        let answered: Result<_, Infallible> = router.oneshot(request).await;
        answered.expect("an answer")
    };
    let (own, other) = (of("127.0.0.1:8181"), of("10.0.0.1:8181"));
    let told = ask(own.clone(), &[LOCAL]).await;
    assert_eq!(text(told).await, "loopback Some(1000)");
    let refused = ask(own, &[("host", "evil.example")]).await;
    assert_eq!(code(refused).await, "host-refused");
    let refused = ask(other, &[LOCAL]).await;
    assert_eq!(
        (refused.status(), code(refused).await),
        (StatusCode::UNAUTHORIZED, "unauthorized".to_owned())
    );
    drop(known);
}
