//! Clients that prove who they are: certificates, and tokens that an issuer has signed.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use semel_conformance::certificates::{Authority, Issued};
use semel_tls::Tls;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use super::server::{Gateway, Reply, connected, exchange};
use super::upstream::Upstream;
use crate::site::{Site, wait_for};

const TOKEN: &str = "0123456789abcdef";

/// A client that trusts the authority of the gateway, and shows a certificate if it has one.
struct Client<'a> {
    port: u16,
    authority: &'a Authority,
    shows: Option<&'a Issued>,
}

impl Client<'_> {
    /// Sends a request; nothing if there is no answer.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Option<Reply> {
        let tls = Tls {
            ca: Some(self.authority.path.clone()),
            cert: self.shows.map(|it| it.cert.clone()),
            key: self.shows.map(|it| it.key.clone()),
            server_name: None,
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let config = Arc::new(tls.config().expect("of use"));
        let session = ClientConnection::new(config, name).expect("a client");
        let stream = StreamOwned::new(session, connected(self.port)?);
        exchange(stream, method, path, headers, body)
    }

    fn charge(&self, key: &str) -> Reply {
        let key = [("idempotency-key", key)];
        self.ask("POST", "/charges", &key, "{}").expect("an answer")
    }

    fn claim(&self, tenant: Option<&str>) -> Reply {
        let mut claim = json!({ "operation": "charge", "key": "payment-1" });
        if let Some(tenant) = tenant {
            claim["tenant"] = json!(tenant);
        }
        let claimed = self.ask("POST", "/v1/claims", &[], &claim.to_string());
        claimed.expect("an answer")
    }
}

#[test]
fn who_sends_messages_to_a_gateway_that_asks_for_certificates_shows_one() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let [server, till] = ["gateway", "till-7"].map(|it| authority.issue(it, &[]));
    let forged = stranger.issue("till-7", &[]);
    let upstream = Upstream::start();
    let tokens = Site::new();
    tokens.write("tokens", format!("till-7 {TOKEN}\n"));
    let lines = format!(
        "[gateway.tls]\ncert = {:?}\nkey = {:?}\nclient_ca = {:?}\n[pipelines.orders]\nkey = \"header:semel-id\"\n\
         effect = {{ kind = \"file\", path = \"orders.ndjson\" }}\n\
         source = {{ kind = \"ingest\", listen = \"gateway\", path = \"/ingest/orders\", token_file = {:?} }}\n",
        server.cert,
        server.key,
        authority.path,
        tokens.path("tokens")
    );
    let mut gateway = Gateway::start(&upstream, &lines);
    let place = format!(
        "orders: takes messages at https://127.0.0.1:{}/ingest/orders",
        gateway.port()
    );
    wait_for("the line", || gateway.stderr().contains(&place));
    let send = |shows, key| {
        let client = Client {
            port: gateway.port(),
            authority: &authority,
            shows,
        };
        let token = format!("Bearer {TOKEN}");
        let headers = [("idempotency-key", key), ("authorization", &*token)];
        client.ask("POST", "/ingest/orders", &headers, "{}")
    };
    let refused = send(None, "k-1").expect("an answer");
    refused.is_problem(401, "unauthorized");
    assert_eq!(send(Some(&forged), "k-1"), None);
    let taken = send(Some(&till), "k-1").expect("an answer");
    let expected = json!({ "accepted": 1, "duplicates": 0 });
    assert_eq!((taken.status, taken.json()), (200, expected), "{taken:?}");
    assert_eq!(upstream.arrivals().len(), 0);
    wait_for("the effect", || {
        gateway.site().path("orders.ndjson").exists()
            && gateway.site().text("orders.ndjson") == "{}\n"
    });
    gateway.stopped().done();
}

#[test]
fn a_certificate_says_whose_key_it_is_and_who_claims() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let [server, acme, other] = ["gateway", "acme", "other"].map(|it| authority.issue(it, &[]));
    let forged = stranger.issue("acme", &[]);
    let upstream = Upstream::start();
    let lines = format!(
        "tenant = \"mtls\"\nclaims = true\n[gateway.tls]\ncert = {:?}\nkey = {:?}\nclient_ca = {:?}\n\
         [claims]\nhosts = [\"api.example\"]\n",
        server.cert, server.key, authority.path
    );
    let mut gateway = Gateway::start(&upstream, &lines);
    let place = format!("claims: https://127.0.0.1:{}/v1/claims", gateway.port());
    wait_for("the line", || gateway.stderr().contains(&place));
    let client = |shows| Client {
        port: gateway.port(),
        authority: &authority,
        shows,
    };
    let (acme, other, nobody) = (client(Some(&acme)), client(Some(&other)), client(None));
    // One key of two tenants is two operations.
    assert_eq!(acme.charge("pay-1").body, b"{\"charge\":1}\n");
    assert_eq!(other.charge("pay-1").body, b"{\"charge\":2}\n");
    assert!(acme.charge("pay-1").is_replay() && other.charge("pay-1").is_replay());
    let shown = ["keys", "show", "pay-1", "--tenant", "other"];
    gateway.site().semel(&shown).done();
    // Without one, nothing reaches the API; one that nobody vouches for is no better.
    nobody.charge("pay-2").is_problem(400, "tenant-missing");
    for path in ["/charges", "/"] {
        let refused = nobody.ask("GET", path, &[], "").expect("an answer");
        refused.is_problem(401, "unauthorized");
    }
    assert_eq!(client(Some(&forged)).ask("GET", "/", &[], ""), None);
    assert_eq!(upstream.arrivals().len(), 2);
    assert_eq!(acme.ask("GET", "/", &[], "").map(|it| it.status), Some(201));
    // A certificate claims as what its subject is allowed to.
    acme.claim(None).is_problem(401, "unauthorized");
    for made in [
        "token create acme --role operator --tenant acme --subject CN=acme",
        "token create other --role viewer --subject CN=other",
    ] {
        let words: Vec<_> = made.split(' ').collect();
        gateway
            .site()
            .semel(&words)
            .done()
            .says("there is no secret");
    }
    wait_for("the tokens", || acme.claim(None).status == 200);
    acme.claim(Some("other")).is_problem(403, "forbidden");
    wait_for("the viewer", || other.claim(None).status == 403);
    other.claim(None).is_problem(403, "forbidden");
    let listed = gateway.site().semel(&["token", "list", "--output", "json"]);
    let listed = listed.done();
    assert!(
        listed.stdout.contains("\"subject\":\"CN=acme\""),
        "{listed:?}"
    );
    gateway.stopped().done();
}

#[test]
fn the_claim_api_encrypts_and_knows_its_clients_by_their_certificates() {
    let authority = Authority::new();
    let [server, billing] = ["claims", "billing"].map(|it| authority.issue(it, &[]));
    let (site, port) = (Site::new(), free_port::take().expect("a free port"));
    let text = format!(
        "[store]\nurl = \"embedded:data\"\n[claims]\nlisten = \"0.0.0.0:{port}\"\n\
         [claims.tls]\ncert = {:?}\nkey = {:?}\nclient_ca = {:?}\n",
        server.cert, server.key, authority.path
    );
    site.write("semel.toml", text);
    let made = "token create billing --role operator --subject CN=billing";
    site.semel(&made.split(' ').collect::<Vec<_>>()).done();
    let running = site.start(&["run", "--output", "json"]);
    let client = |shows| Client {
        port,
        authority: &authority,
        shows,
    };
    let billing = client(Some(&billing));
    wait_for("a server that listens", || {
        billing.ask("GET", "/v1/openapi.json", &[], "").is_some()
    });
    let granted = billing.claim(None);
    assert_eq!(granted.json()["decision"], "granted", "{granted:?}");
    client(None).claim(None).is_problem(401, "unauthorized");
    // In the clear, nobody is answered.
    let plain = super::server::send(port, "GET", "/v1/openapi.json", &[], "");
    assert_eq!(plain, None);
    running.signal(rustix::process::Signal::TERM);
    running.wait().done();
}

const SECRET: &[u8] = b"a secret of thirty-two bytes, ok";

/// A token as an issuer signs it.
fn token(claims: &Value, secret: &[u8]) -> String {
    let encoded = |text: &[u8]| URL_SAFE_NO_PAD.encode(text);
    let head = encoded(b"{\"alg\":\"HS256\"}");
    let text = format!("{head}.{}", encoded(claims.to_string().as_bytes()));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length");
    mac.update(text.as_bytes());
    format!("Bearer {text}.{}", encoded(&mac.finalize().into_bytes()))
}

#[test]
fn a_token_that_the_issuer_has_signed_says_whose_key_it_is() {
    let upstream = Upstream::start();
    let site = Site::new();
    let key = URL_SAFE_NO_PAD.encode(SECRET);
    site.write(
        "jwks.json",
        format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{key}\"}}]}}"),
    );
    let lines = "tenant = \"jwt:org\"\n[gateway.jwt]\nkeys = \"jwks.json\"\naudience = \"pay\"\n";
    let mut gateway = Gateway::begin_at("127.0.0.1", site, "embedded:data", &upstream.url(), lines);
    gateway.serves();
    let charge = |token: &str| {
        let headers = [("idempotency-key", "pay-1"), ("authorization", token)];
        gateway.ask("POST", "/charges", &headers, "{}")
    };
    // The year 2100.
    let of = |org: &str| json!({ "org": org, "aud": "pay", "exp": 4_102_444_800_u64 });
    let (acme, other) = (token(&of("acme"), SECRET), token(&of("other"), SECRET));
    assert_eq!(charge(&acme).body, b"{\"charge\":1}\n");
    assert_eq!(charge(&other).body, b"{\"charge\":2}\n");
    // A new token of the same tenant has the same keys.
    let mut later = of("acme");
    later["jti"] = json!("2");
    assert!(charge(&token(&later, SECRET)).is_replay());
    let mut over = of("acme");
    over["exp"] = json!(1_700_000_000);
    let mut elsewhere = of("acme");
    elsewhere["aud"] = json!("mail");
    for bad in [
        token(&of("acme"), b"another secret of thirty-two byte"),
        token(&over, SECRET),
        token(&elsewhere, SECRET),
        "Bearer x".to_owned(),
        "Basic YTpi".to_owned(),
    ] {
        let refused = charge(&bad);
        refused.is_problem(401, "unauthorized");
        assert!(refused.header("www-authenticate").is_some(), "{refused:?}");
    }
    let mut nameless = of("acme");
    nameless["org"] = json!(["acme"]);
    charge(&token(&nameless, SECRET)).is_problem(400, "tenant-missing");
    let key = [("idempotency-key", "pay-1")];
    let bare = gateway.ask("POST", "/charges", &key, "{}");
    bare.is_problem(400, "tenant-missing");
    assert_eq!(upstream.arrivals().len(), 2);
    // Without a key there is nothing to be whose.
    let passed = gateway.ask("POST", "/charges", &[("authorization", "Bearer x")], "{}");
    assert_eq!(passed.status, 201);
    let checked = gateway.site().semel(&["check"]).done();
    assert!(checked.stdout.contains("jwt:org"), "{checked:?}");
    gateway.site().write("jwks.json", "{\"keys\":[]}");
    let refused = gateway.site().semel(&["run"]).code(2);
    refused.says("gateway.jwt.keys").says("has no key");
    gateway.stopped().done();
}
