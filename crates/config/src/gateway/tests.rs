use std::time::Duration;

use semel_engine::effect::{Class, OnDoubt, within_provider_window};

use super::*;
use crate::all_backends::ALL_BACKENDS;
use crate::{Fault, Overrides, Settings};

fn read(text: &str, overrides: &Overrides) -> Result<Settings, Vec<Fault>> {
    let variables = std::iter::empty();
    Settings::of("conf/semel.toml", text, variables, overrides, ALL_BACKENDS)
}

fn gateway(more: &str) -> GatewaySettings {
    let read = read(&with(more), &Overrides::default());
    read.expect("sound settings").gateway.expect("a gateway")
}

fn faults(text: &str) -> Vec<String> {
    let faults = read(text, &Overrides::default()).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

/// A gateway with more lines, which begin at line 4.
fn with(more: &str) -> String {
    format!("[gateway]\nlisten = '127.0.0.1:8080'\nupstream = 'http://127.0.0.1:9000'\n{more}\n")
}

const PIPELINE: &str =
    "[pipelines.p]\nkey = 'line'\nsource = { kind = 'stdin' }\neffect = { kind = 'stdout' }\n";

#[test]
fn two_lines_make_a_gateway_whose_defaults_are_those_of_the_layer() {
    let it = gateway("");
    assert_eq!(it.listen, "127.0.0.1:8080".parse().expect("an address"));
    assert_eq!(it.upstreams, [Box::from("http://127.0.0.1:9000")]);
    assert_eq!(it.routes.len(), 1);
    assert_eq!(&*it.routes[0].path, "*");
    assert_eq!(it.routes[0].route, Route::default());
    assert_eq!((it.tls, it.upstream_ca), (None, None));
}

#[test]
fn gateways_that_share_an_address_share_a_store() {
    for store in [
        "sqlite:semel.db",
        "redis://localhost",
        "postgres://me@localhost/shop",
    ] {
        let text = format!("[store]\nurl = '{store}'\n{}", with("reuse_port = true"));
        let accepted = text.replace(
            "[gateway]",
            "accept = ['durability', 'eviction']\n[gateway]",
        );
        let read = read(&accepted, &Overrides::default()).expect("sound settings");
        assert!(read.gateway.expect("a gateway").reuse_port);
    }
    assert!(!gateway("").reuse_port);
    let [fault] = &*faults(&with("reuse_port = true")) else {
        panic!("one fault");
    };
    let begins = "conf/semel.toml:4: gateway.reuse_port: needs a store that several processes have open at once";
    assert!(fault.starts_with(begins), "{fault}");
}

#[test]
fn a_route_has_the_settings_of_the_gateway_where_it_has_none() {
    let it = gateway(
        "wait = '1s'\nclass = 'keyed'\nprovider_window = '1h'\nmax_body = '2MiB'\n\
         [[gateway.routes]]\npath = '/charges/*'\noperation = 'charges'\nwait = '2s'\n\
         [[gateway.routes]]\npath = '/notes'\nclass = 'unkeyed'\non_doubt = 'repeat'\n\
         [[gateway.routes]]\npath = '/stripe'\nmode = 'stripe'",
    );
    let [charges, notes, stripe, all] = &*it.routes else {
        panic!("{:?}", it.routes);
    };
    let provider_window = within_provider_window(Duration::from_secs(3_600));
    assert_eq!(&*charges.route.operation, "charges");
    assert_eq!(charges.route.wait, Duration::from_secs(2));
    assert_eq!(charges.route.class, Class::Keyed { provider_window });
    assert_eq!(charges.route.max_body_bytes, 2 << 20);
    assert_eq!(&*notes.route.operation, "http");
    assert_eq!(notes.route.class, Class::Unkeyed(OnDoubt::Repeat));
    assert_eq!(stripe.route.window, Duration::from_secs(86_400));
    assert_eq!((&*all.path, all.route.wait), ("*", Duration::from_secs(1)));
}

#[test]
fn every_setting_of_a_route_means_what_it_says() {
    let it = gateway(
        "methods = ['PUT']\nrequire_key = true\nkey = 'derive'\noperation = 'orders'\n\
         fingerprint = ['path', 'header:X-Version', 'json:/order']\nwindow = '2d'\nlease = '1m'\n\
         upstream_timeout = '9s'\nmax_answer = '5B'\noutcomes = '2xx'\ndecisive = '402'\nunsure = '408,503'\n\
         kept_headers = ['x-request-id']\ntenant = 'header:X-Tenant'\nfail = 'open'\nshadow = true",
    );
    let route = &it.routes[0].route;
    assert_eq!(route.methods, [Method::PUT]);
    assert!(route.require_key && route.derive && route.shadow);
    assert_eq!(&*route.operation, "orders");
    assert!(!route.fingerprint.method && route.fingerprint.path && !route.fingerprint.query);
    assert_eq!(route.fingerprint.headers, ["x-version"]);
    assert!(
        matches!(&route.fingerprint.body, semel_gateway::BodyPart::Fields(it) if it.len() == 1)
    );
    assert_eq!(route.window, Duration::from_secs(2 * 86_400));
    assert_eq!(route.lease, Duration::from_secs(60));
    assert_eq!(route.upstream_timeout, Duration::from_secs(9));
    assert_eq!(route.max_answer_bytes, 5);
    assert_eq!(
        (route.outcomes.to_string(), route.decisive.to_string()),
        ("2xx".into(), "402".into())
    );
    assert_eq!(route.unsure.to_string(), "408,503");
    assert_eq!(route.kept_headers, ["x-request-id"]);
    assert!(matches!(&route.tenant, semel_gateway::TenantFrom::Header(it) if it == "x-tenant"));
    assert_eq!(route.fail, semel_gateway::OnOutage::Open);
    assert!(route.check().is_ok());
}

/// A line of `[gateway]`, and what is told of it.
const BAD: &[(&str, &str)] = &[
    (
        "listn = ''",
        "gateway.listn: unknown setting; did you mean `listen`?",
    ),
    (
        "upstream_ca = 'ca.pem'",
        "gateway.upstream_ca: goes with an upstream of `https`",
    ),
    (
        "methods = ['post']",
        "gateway.methods: `post` is no method; write it in capitals",
    ),
    ("methods = []", "gateway.methods: must not be empty"),
    ("key = 'body'", "gateway.key: `body` is unknown"),
    (
        "fingerprint = ['bdy']",
        "gateway.fingerprint: `bdy` is no part of a request",
    ),
    (
        "fingerprint = ['body', 'json:/a']",
        "gateway.fingerprint: either all of the `body`",
    ),
    ("outcomes = '4xx'", "gateway.outcomes: 2xx are outcomes"),
    (
        "outcomes = '2xx,429'",
        "gateway.outcomes: 429 says that nothing was applied",
    ),
    (
        "outcomes = '2xx;3xx'",
        "gateway.outcomes: `2xx;3xx` is neither a class",
    ),
    ("unsure = '2xx'", "gateway.unsure: 2xx are outcomes"),
    (
        "decisive = '404'",
        "gateway.decisive: 404 says nothing about earlier attempts",
    ),
    (
        "kept_headers = ['Set-Cookie']",
        "gateway.kept_headers: the header set-cookie is never kept",
    ),
    (
        "tenant = 'jwt:sub'",
        "gateway.tenant: `jwt:` takes the tenant from a token",
    ),
    (
        "tenant = 'mtls'",
        "gateway.tenant: `mtls` takes the tenant from the certificate",
    ),
    ("tenant = 'jwt:'", "gateway.tenant: `jwt:` says nothing"),
    (
        "jwt = { issuer = 'https://a' }",
        "gateway.jwt.keys: is missing",
    ),
    (
        "jwt = { keys = 'jwks.json' }",
        "gateway.jwt.keys: is used by no route",
    ),
    (
        "tls = { client_ca = 'ca.pem' }",
        "gateway.tls.cert: is missing",
    ),
    (
        "tenant = 'X-Tenant'",
        "gateway.tenant: `X-Tenant` says nothing of where",
    ),
    (
        "upstream_timeout = '0s'",
        "gateway.upstream_timeout: must be longer than zero",
    ),
    (
        "upstream_timeout = '8s'",
        "gateway.upstream_timeout: must be at least three times `connect_timeout`",
    ),
    (
        "connect_timeout = '11s'",
        "gateway.connect_timeout: must be at most a third",
    ),
    ("lease = '1ms'", "gateway.lease: must be from `100ms`"),
    ("window = '0s'", "gateway.window: a window of zero"),
    ("max_body = '1GiB'", "gateway.max_body: must be from `1B`"),
    (
        "provider_window = '1h'",
        "gateway.provider_window: belongs to `class = \"keyed\"`",
    ),
    (
        "mode = 'strype'",
        "gateway.mode: `strype` is unknown; did you mean `stripe`?",
    ),
    ("operation = ''", "gateway.operation: "),
    (
        "operation = 'semel-pause'",
        "gateway.operation: `semel-pause` is the name that orders",
    ),
    (
        "operation = 'a.shadow'",
        "gateway.operation: ends like the names",
    ),
    ("claims = 'yes'", "gateway.claims: must be"),
    (
        "health = { path = 'healthz' }",
        "gateway.health.path: `healthz` is no path",
    ),
    ("tls = { cert = 'a.pem' }", "gateway.tls.key: is missing"),
    (
        "tls = {}",
        "gateway.tls: is empty, so nothing is encrypted; set `cert` and `key` in it, or remove it",
    ),
    (
        "routes = 'a'",
        "gateway.routes: must be a list of tables, not a string",
    ),
];

#[test]
fn a_bad_value_is_told_once_with_its_line() {
    for &(line, why) in BAD {
        // Routes that have the setting from the gateway do not tell it again.
        let routes = if line.starts_with("routes") {
            ""
        } else {
            "\n[[gateway.routes]]\npath = '/a'"
        };
        let faults = faults(&with(&format!("{line}{routes}")));
        let is_told = |it: &String| it.starts_with("conf/semel.toml:4: ") && it.contains(why);
        assert!(
            matches!(&*faults, [it] if is_told(it)),
            "{line}: {faults:?}"
        );
    }
}

#[test]
fn a_fault_of_a_route_has_its_line_and_its_number() {
    for (route, why) in [
        ("operation = 'x'", "4: gateway.routes.0.path: is missing"),
        (
            "path = 'charges'",
            "5: gateway.routes.0.path: `charges` is no path of a route",
        ),
        (
            "path = '/a'\nwait = 'soon'",
            "6: gateway.routes.0.wait: `soon` is no duration",
        ),
        (
            "path = '/a'\npth = ''",
            "6: gateway.routes.0.pth: unknown setting; did you mean `path`?",
        ),
        (
            "path = '/a'\nlisten = '127.0.0.1:1'",
            "6: gateway.routes.0.listen: belongs to `[gateway]`",
        ),
        (
            "path = '/a'\nmode = 'stripe'\nwait = '1s'",
            "7: gateway.routes.0.wait: in the mode `stripe`",
        ),
        (
            "path = '/a'\nclass = 'keyed'",
            "4: gateway.routes.0.provider_window: is missing",
        ),
        (
            "path = '/a/*'\n[[gateway.routes]]\npath = '/a/b'",
            "7: gateway.routes.1.path: no request comes this far: the route of `/a/*`",
        ),
    ] {
        let faults = faults(&with(&format!("[[gateway.routes]]\n{route}")));
        assert!(
            matches!(&*faults, [it] if it.starts_with(&format!("conf/semel.toml:{why}"))),
            "{route}: {faults:?}"
        );
    }
    // What is sound for the gateway may not be with what a route says.
    let faults = faults(&with(
        "decisive = '409'\n[[gateway.routes]]\npath = '/a'\nclass = 'keyed'\nprovider_window = '1h'",
    ));
    assert!(
        matches!(&*faults, [it] if it.contains("gateway.routes.0.decisive: 409 says nothing")),
        "{faults:?}"
    );
}

#[test]
fn routes_of_other_methods_may_share_a_path() {
    let it = gateway(
        "[[gateway.routes]]\npath = '/a'\n[[gateway.routes]]\npath = '/a'\nmethods = ['PUT']",
    );
    assert_eq!(it.routes.len(), 3);
}

#[test]
fn a_key_is_not_derived_from_nothing() {
    let derived = |parts: &str| faults(&with(&format!("key = 'derive'\nfingerprint = {parts}")));
    for parts in ["['method', 'path']", "['path']"] {
        let faults = derived(parts);
        assert!(
            matches!(&*faults, [it] if it.contains("gateway.key: derives")),
            "{faults:?}"
        );
    }
    for parts in ["['path', 'query']", "['json:/id']", "['header:X-Id']"] {
        assert!(derived(parts).is_empty());
    }
}

#[test]
fn an_upstream_is_a_server_and_not_the_gateway_itself() {
    let upstream = |text: &str| {
        faults(&format!(
            "[gateway]\nlisten = '127.0.0.1:8080'\nupstream = {text}\n"
        ))
    };
    for (text, why) in [
        ("'localhost'", "is no URL of a server"),
        ("'ftp://a'", "is no URL of a server"),
        ("'http://'", "is no URL of a server"),
        ("'http://a/?b'", "has more than a path"),
        ("'http://me:secret@a'", "has a user"),
        ("[]", "must not be empty"),
        ("'http://127.0.0.1:8080'", "is the gateway's own address"),
        (
            "'http://localhost:8080/api'",
            "is the gateway's own address",
        ),
        ("['http://a', 'http://a']", "names a server twice"),
    ] {
        let faults = upstream(text);
        assert!(
            matches!(&*faults, [it] if it.starts_with("conf/semel.toml:3: gateway.upstream: ") && it.contains(why)),
            "{text}: {faults:?}"
        );
        assert!(!faults.concat().contains("secret"), "{faults:?}");
    }
    for text in [
        "'https://api.example'",
        "'http://[::1]:9000/v1'",
        "['http://a:1', 'http://b:1']",
    ] {
        assert!(upstream(text).is_empty(), "{text}");
    }
}

#[test]
fn a_gateway_needs_an_address_and_a_server_and_no_pipeline() {
    for (text, missing) in [
        ("[gateway]\n", &["gateway.listen", "gateway.upstream"][..]),
        (
            "[claims]\n[gateway]\n",
            &["gateway.listen", "gateway.upstream"],
        ),
        ("[gateway]\nlisten = '127.0.0.1:1'\n", &["gateway.upstream"]),
        ("[gateway]\nupstream = 'http://a'\n", &["gateway.listen"]),
    ] {
        let faults = faults(text);
        assert_eq!(faults.len(), missing.len(), "{faults:?}");
        for name in missing {
            let expected = format!("{name}: is missing");
            assert!(faults.iter().any(|it| it.contains(&expected)), "{faults:?}");
        }
    }
    // Others may stand in one file with a gateway that is not served.
    let it = read(
        &format!("{PIPELINE}[gateway]\nwait = '1s'\n"),
        &Overrides::default(),
    );
    assert!(it.expect("sound settings").gateway.is_none());
}

#[test]
fn its_address_and_its_keys_are_its_own() {
    let both = |more: &str| faults(&with(more));
    for (more, why) in [
        (
            "[admin]\nlisten = '127.0.0.1:8080'",
            "gateway.listen: meets the address of `admin.listen`",
        ),
        (
            "[claims]\nlisten = '0.0.0.0:8080'",
            "gateway.listen: meets the address of `claims.listen`",
        ),
    ] {
        let faults = both(more);
        assert!(matches!(&*faults, [it] if it.contains(why)), "{faults:?}");
    }
    let named = both(&format!(
        "[[gateway.routes]]\npath = '/a'\noperation = 'p'\n{PIPELINE}"
    ));
    assert!(
        matches!(&*named, [it] if it.contains(":6: gateway.routes.0.operation: `p` is the name of a pipeline")),
        "{named:?}"
    );
    let named = both(&PIPELINE.replace("pipelines.p", "pipelines.http"));
    assert!(
        matches!(&*named, [it] if it.contains("gateway.operation: `http` is the name of a pipeline")),
        "{named:?}"
    );
}

#[test]
fn claims_are_served_at_the_address_of_the_gateway_if_it_says_so() {
    let listeners = |text: &str| {
        let it = read(text, &Overrides::default()).expect("sound settings");
        let listeners = it.claims_listeners();
        assert_eq!(it.serves_claims(), !listeners.is_empty());
        let shown = listeners
            .iter()
            .map(|it| format!("{} {}", it.setting, it.address));
        shown.collect::<Vec<_>>()
    };
    let gateway = "gateway.listen 127.0.0.1:8080";
    assert!(listeners(&with("")).is_empty());
    assert!(listeners(&with("claims = false")).is_empty());
    assert_eq!(listeners(&with("claims = true")), [gateway]);
    let both = with("claims = true\n[claims]\nlisten = '127.0.0.1:8181'");
    assert_eq!(listeners(&both), ["claims.listen 127.0.0.1:8181", gateway]);
    // What such claims are like is said without an address of their own.
    assert_eq!(
        listeners(&with("claims = true\n[claims]\nlease = '1m'")),
        [gateway]
    );
}

#[test]
fn no_route_is_for_paths_at_which_claims_are_answered() {
    let route = |claims: bool, path: &str| {
        faults(&with(&format!(
            "claims = {claims}\n[[gateway.routes]]\npath = '{path}'"
        )))
    };
    for path in [
        "/v1/claims",
        "/v1/claims/*",
        "/v1/claims/batch",
        "/v1/operations",
        "/v1/settle/*",
        "/v1/openapi.json",
    ] {
        let faults = route(true, path);
        assert!(
            matches!(&*faults, [it] if it.contains(":6: gateway.routes.0.path: no request comes this far")),
            "{path}: {faults:?}"
        );
        assert!(route(false, path).is_empty(), "{path}");
    }
    for path in ["/v1/*", "/v1/claims-of-others", "/v1/claimsx/*", "*"] {
        assert!(route(true, path).is_empty(), "{path}");
    }
    let of_route = faults(&with("[[gateway.routes]]\npath = '/a'\nclaims = true"));
    assert!(
        matches!(&*of_route, [it] if it.contains("belongs to `[gateway]`")),
        "{of_route:?}"
    );
}

#[test]
fn a_tenant_is_proved_by_what_the_gateway_has_for_it() {
    let it = gateway(
        "jwt = { keys = 'jwks.json', issuer = 'https://id.example', audience = 'pay' }\n\
         tls = { cert = 'a.pem', key = 'b.pem', client_ca = '/ca.pem' }\ntenant = 'jwt:org'\n\
         [[gateway.routes]]\npath = '/a'\ntenant = 'mtls'\n[[gateway.routes]]\npath = '/b'\n\
         [[gateway.routes]]\npath = '/c'\ntenant = 'none'",
    );
    let proofs: Vec<_> = it.routes.iter().map(|it| it.proof.clone()).collect();
    let by_jwt = Some(TenantProof::Jwt("org".into()));
    let by_certificate = Some(TenantProof::Certificate);
    assert_eq!(proofs, [by_certificate, by_jwt.clone(), None, by_jwt]);
    let jwt = it.jwt.expect("keys");
    assert_eq!(jwt.keys, PathBuf::from("conf/jwks.json"));
    assert_eq!(jwt.issuer.as_deref(), Some("https://id.example"));
    assert_eq!(jwt.audience.as_deref(), Some("pay"));
    let tls = it.tls.expect("a certificate");
    assert_eq!(tls.client_ca, Some(PathBuf::from("/ca.pem")));
}

#[test]
fn a_run_of_one_pipeline_serves_no_api() {
    let only = Overrides {
        pipeline: Some("p".into()),
        ..Overrides::default()
    };
    let text = format!("{}{PIPELINE}", with(""));
    assert!(
        read(&text, &only)
            .expect("sound settings")
            .gateway
            .is_none()
    );
    let text = text.replace("[pipelines.p]", "[pipelines.q]");
    assert!(read(&text, &only).is_err());
}

#[test]
fn what_is_shown_loads_again_to_the_same_routes() {
    let text = with(
        "class = 'keyed'\nprovider_window = '1h'\n\
         [[gateway.routes]]\npath = '/notes'\nclass = 'unkeyed'\n\
         [[gateway.routes]]\npath = '/stripe'\nmode = 'stripe'\ntenant = 'header:X-Tenant'",
    );
    let first = read(&text, &Overrides::default()).expect("sound settings");
    let shown = first.effective.toml(true);
    assert_eq!(shown.matches("[[gateway.routes]]").count(), 2, "{shown}");
    let again = read(&shown, &Overrides::default()).expect("sound settings");
    let routes = |it: Settings| it.gateway.expect("a gateway").routes;
    let json: serde_json::Value = serde_json::from_str(&first.effective.json(true)).expect("JSON");
    assert_eq!(json["settings"]["gateway"]["routes"][1]["path"], "/stripe");
    assert_eq!(
        json["origins"]["gateway.routes.0.path"],
        "conf/semel.toml:7"
    );
    // What a route has from the gateway comes from the line of the gateway.
    assert_eq!(
        json["origins"]["gateway.routes.1.class"],
        "conf/semel.toml:4"
    );
    assert_eq!(routes(first), routes(again));
}
