use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::all_backends::ALL_BACKENDS;
use crate::{Fault, Overrides, Settings, SourceSettings};

fn read(folder: &TempDir, text: &str) -> Result<Settings, Vec<Fault>> {
    let name: PathBuf = folder.path().join("semel.toml");
    let name = name.to_str().expect("a text");
    let overrides = Overrides::default();
    Settings::of(name, text, std::iter::empty(), &overrides, ALL_BACKENDS)
}

fn pipeline(name: &str, source: &str) -> String {
    format!(
        "[pipelines.{name}]\nkey = 'header:semel-id'\neffect = {{ kind = 'stdout' }}\n\
         [pipelines.{name}.source]\nkind = 'ingest'\n{source}\n"
    )
}

fn source(folder: &TempDir, of: &str) -> IngestSettings {
    let settings = read(folder, &pipeline("p", of)).map_err(|faults| format!("{faults:?}"));
    match settings.expect("sound settings").pipelines.remove(0).source {
        SourceSettings::Ingest(ingest) => ingest,
        other => panic!("{other:?}"),
    }
}

fn faults(folder: &TempDir, text: &str) -> Vec<String> {
    let faults = read(folder, text).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

const PLACE: &str = "listen = '127.0.0.1:8283'\npath = '/v1/ingest/orders'";

#[test]
fn a_source_has_defaults_and_reads_what_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = source(&folder, PLACE);
    assert_eq!(&*plain.path, "/v1/ingest/orders");
    assert!(!plain.is_required && !plain.is_any_first && plain.tokens.is_empty());
    assert_eq!(
        (plain.max_body_bytes, plain.max_waiting),
        (8 << 20, 100_000)
    );
    assert_eq!(plain.to_string(), "http://127.0.0.1:8283/v1/ingest/orders");
    std::fs::write(
        folder.path().join("tokens"),
        "0123456789abcdef\n\ntill-7  fedcba9876543210\n",
    )
    .expect("a file");
    let all = "listen = '0.0.0.0:8283'\npath = '/in'\ntoken_file = 'tokens'\nrequire = true\nfirst = 'any'\n\
               max_body = '1MiB'\nmax_waiting = 7\nmax_producers = 9\nretention = '3d'\nforget_producers = '30d'";
    let all = source(&folder, all);
    assert_eq!(
        all.tokens,
        [
            Token::new("0123456789abcdef"),
            Token::new("fedcba9876543210").of_client("till-7")
        ]
    );
    assert!(all.is_required && all.is_any_first);
    assert_eq!((all.max_body_bytes, all.max_waiting), (1 << 20, 7));
    assert_eq!((plain.max_producers, all.max_producers), (10_000, 9));
    assert_eq!(all.retention, Some(Duration::from_secs(3 * 86_400)));
    let month = Duration::from_secs(30 * 86_400);
    assert_eq!(
        (plain.forget_producers, all.forget_producers),
        (None, Some(month))
    );
}

#[test]
fn what_cannot_be_is_refused_by_its_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("short"), "0123456789abcde\n").expect("a file");
    std::fs::write(folder.path().join("empty"), "\n").expect("a file");
    let named = "till-7 0123456789abcdef\na/b fedcba9876543210\n";
    std::fs::write(folder.path().join("named"), named).expect("a file");
    let (two, trailing) = (
        "0123456789abcdef fedcba9876543210\n",
        "0123456789abcdef of-the-till-in-the-hall\n",
    );
    std::fs::write(folder.path().join("two"), two).expect("a file");
    std::fs::write(folder.path().join("trailing"), trailing).expect("a file");
    let many: Vec<_> = (0..101)
        .map(|it| format!("c{it} 0123456789abcdef"))
        .collect();
    let many = many.join("\n");
    std::fs::write(folder.path().join("many"), many).expect("a file");
    for (source, setting, told) in [
        ("path = '/in'", "listen", "missing"),
        ("listen = '127.0.0.1:1'", "path", "missing"),
        (
            "listen = 'here'\npath = '/in'",
            "listen",
            "an address and a port",
        ),
        (
            "listen = '127.0.0.1:1'\npath = 'in'",
            "path",
            "begins with `/`",
        ),
        ("listen = '0.0.0.0:1'\npath = '/in'", "listen", "token_file"),
        (&format!("{PLACE}\nfirst = 'two'"), "first", "any"),
        (
            &format!("{PLACE}\nrequire = 'yes'"),
            "require",
            "true or false",
        ),
        (&format!("{PLACE}\nmax_body = '1GiB'"), "max_body", "32MiB"),
        (&format!("{PLACE}\nmax_waiting = 0"), "max_waiting", "1"),
        (
            &format!("{PLACE}\ntoken_file = 'short'"),
            "token_file",
            "line 1",
        ),
        (
            &format!("{PLACE}\ntoken_file = 'empty'"),
            "token_file",
            "is empty",
        ),
        (
            &format!("{PLACE}\ntoken_file = 'short'\nhosts = ['a']"),
            "hosts",
            "token_file",
        ),
        (
            &format!("{PLACE}\nforget_producers = '1ms'"),
            "forget_producers",
            "at least `1s`",
        ),
        (
            &format!("{PLACE}\nforget_producers = '1h'"),
            "forget_producers",
            "window",
        ),
        (
            &format!("{PLACE}\ntoken_file = 'named'"),
            "token_file",
            "name of a client in line 2",
        ),
        (
            // A token that stands before something is no name, which the metrics would show.
            &format!("{PLACE}\ntoken_file = 'two'"),
            "token_file",
            "name of a client in line 1",
        ),
        (
            &format!("{PLACE}\ntoken_file = 'trailing'"),
            "token_file",
            "name of a client in line 1",
        ),
        (
            &format!("{PLACE}\ntoken_file = 'many'"),
            "token_file",
            "100 clients",
        ),
        (&format!("{PLACE}\nreqire = true"), "reqire", "require"),
    ] {
        let found = faults(&folder, &pipeline("p", source));
        let is_told = |it: &String| it.contains(setting) && it.contains(told);
        assert!(found.iter().any(is_told), "{source}: {found:?}");
    }
}

#[test]
fn a_store_that_keeps_no_messages_of_others_is_refused_where_the_source_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    for (store, is_refused) in [
        ("embedded:data", false),
        ("sqlite:semel.db", false),
        ("memory:", false),
        ("postgres://localhost/semel", false),
        ("mysql://root@localhost/semel", false),
        ("redis://localhost", true),
    ] {
        let text = format!(
            "[store]\nurl = '{store}'\nallow_volatile = true\n{}",
            pipeline("p", PLACE)
        );
        let found = read(&folder, &text).err().unwrap_or_default();
        let codes: Vec<_> = found
            .iter()
            .map(|it| (it.code.as_str(), it.to_string()))
            .collect();
        assert_eq!(!codes.is_empty(), is_refused, "{store}: {codes:?}");
        for (code, told) in codes {
            assert_eq!(code, "unsupported", "{told}");
            assert!(told.contains("pipelines.p.source.kind"), "{told}");
        }
    }
}

#[test]
fn sources_share_an_address_and_no_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = "listen = '127.0.0.1:8283'\npath = '/v1/ingest/refunds'";
    let both = |other| format!("{}{}", pipeline("p", PLACE), pipeline("q", other));
    assert_eq!(faults(&folder, &both(other)), [""; 0]);
    let found = faults(&folder, &both(PLACE));
    assert!(
        found.len() == 1 && found[0].contains("has this path"),
        "{found:?}"
    );
}

#[test]
fn a_missing_key_is_told_with_the_one_that_fits() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = pipeline("p", PLACE).replace("key = 'header:semel-id'\n", "");
    let found = faults(&folder, &text);
    assert!(
        found.iter().any(|it| it.contains("header:semel-id")),
        "{found:?}"
    );
}

#[test]
fn a_request_has_one_message_where_its_key_is_that_of_the_operation() {
    let folder = tempfile::tempdir().expect("a folder");
    for (key, is_whole) in [
        ("semel-id", false),
        ("idempotency-key", true),
        ("Idempotency-Key", true),
    ] {
        let text = pipeline("p", PLACE).replace("semel-id", key);
        let pipelines = read(&folder, &text).expect("sound settings").pipelines;
        let SourceSettings::Ingest(ingest) = &pipelines[0].source else {
            panic!("another source")
        };
        assert_eq!(ingest.is_key_whole, is_whole, "{key}");
    }
}

const GATEWAY: &str = "[gateway]\nlisten = '127.0.0.1:8080'\nupstream = 'http://127.0.0.1:9000'\n";
const ADMIN: &str = "[admin]\nlisten = '127.0.0.1:9464'\n";
const AT_GATEWAY: &str = "listen = 'gateway'\npath = '/ingest/orders'\ntoken_file = 'tokens'";
const AT_ADMIN: &str = "listen = 'admin'\npath = '/v1/ingest/orders'";

#[test]
fn a_source_is_at_the_listener_of_the_gateway_or_the_admin_api() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tokens"), "0123456789abcdef\n").expect("a file");
    let tls = |name: &str| format!("[{name}.tls]\ncert = 'c.pem'\nkey = 'k.pem'\n");
    for (tables, source, entrance, shown) in [
        (
            GATEWAY.to_owned(),
            AT_GATEWAY,
            Entrance::Gateway("127.0.0.1:8080".parse().expect("an address")),
            "http://127.0.0.1:8080/ingest/orders",
        ),
        (
            format!("{ADMIN}{}", tls("admin")),
            AT_ADMIN,
            Entrance::Admin("127.0.0.1:9464".parse().expect("an address")),
            "https://127.0.0.1:9464/v1/ingest/orders",
        ),
        (
            format!("{GATEWAY}{}", tls("gateway")),
            AT_GATEWAY,
            Entrance::Gateway("127.0.0.1:8080".parse().expect("an address")),
            "https://127.0.0.1:8080/ingest/orders",
        ),
        // A route of every path leaves this one, and so does a path beside it.
        (
            format!(
                "{GATEWAY}claims = true\n[[gateway.routes]]\npath = '/ingest/orders/*'\n[[gateway.routes]]\npath = '*'\n"
            ),
            AT_GATEWAY,
            Entrance::Gateway("127.0.0.1:8080".parse().expect("an address")),
            "http://127.0.0.1:8080/ingest/orders",
        ),
        (
            format!(
                "{}{}client_ca = 'ca.pem'\n",
                GATEWAY.replace("127.0.0.1:8080", "0.0.0.0:8080"),
                tls("gateway")
            ),
            AT_GATEWAY,
            Entrance::Gateway("0.0.0.0:8080".parse().expect("an address")),
            "https://0.0.0.0:8080/ingest/orders",
        ),
        (
            ADMIN.replace("127.0.0.1", "0.0.0.0"),
            AT_ADMIN,
            Entrance::Admin("0.0.0.0:9464".parse().expect("an address")),
            "http://0.0.0.0:9464/v1/ingest/orders",
        ),
    ] {
        let text = format!("{tables}{}", pipeline("p", source));
        let settings = read(&folder, &text).map_err(|faults| format!("{tables}: {faults:?}"));
        let SourceSettings::Ingest(ingest) = settings.expect("sound").pipelines.remove(0).source
        else {
            panic!("another source")
        };
        assert_eq!(ingest.entrance, entrance, "{tables}");
        assert_eq!(ingest.to_string(), shown, "{tables}");
    }
}

#[test]
fn what_another_listener_cannot_lend_is_refused_by_its_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tokens"), "0123456789abcdef\n").expect("a file");
    let route = |path: &str| format!("{GATEWAY}[[gateway.routes]]\npath = '{path}'\n");
    let open = GATEWAY.replace("127.0.0.1:8080", "0.0.0.0:8080");
    let certificates = "[gateway.tls]\ncert = 'c.pem'\nkey = 'k.pem'\nclient_ca = 'ca.pem'\n";
    let asking = format!("{open}{certificates}");
    let tokenless = "listen = 'gateway'\npath = '/ingest/orders'";
    let by_name = format!("{tokenless}\nhosts = ['api.example']");
    let with = |place: &str, more: &str| format!("{place}\n{more}");
    let at = |listen: &str, path: &str| {
        let tokens = if listen == "gateway" {
            "\ntoken_file = 'tokens'"
        } else {
            ""
        };
        format!("listen = '{listen}'\npath = '{path}'{tokens}")
    };
    let claims = format!("{GATEWAY}claims = true\n");
    let no_api = format!("{ADMIN}api = false\n");
    for (tables, source, setting, told) in [
        ("", AT_GATEWAY, "listen", "set `gateway.listen`"),
        ("", AT_ADMIN, "listen", "set `admin.listen`"),
        (GATEWAY, AT_ADMIN, "listen", "set `admin.listen`"),
        (&no_api, AT_ADMIN, "listen", "admin.api = false"),
        // Whoever stands before a gateway at a loopback address opens it, and a certificate is that of any client of the API.
        (&open, tokenless, "listen", "set `token_file`"),
        (GATEWAY, tokenless, "listen", "set `token_file`"),
        (GATEWAY, &by_name, "listen", "set `token_file`"),
        (&asking, tokenless, "listen", "set `token_file`"),
        (
            &route("/ingest/orders"),
            AT_GATEWAY,
            "path",
            "the route of `/ingest/orders`",
        ),
        (
            &route("/ingest/*"),
            AT_GATEWAY,
            "path",
            "the route of `/ingest/*`",
        ),
        (
            &claims,
            &at("gateway", "/v1/claims/orders"),
            "path",
            "the claim API",
        ),
        (
            &claims,
            &at("gateway", "/v1/settle"),
            "path",
            "the claim API",
        ),
        (GATEWAY, &at("gateway", "/in/../orders"), "path", "`..`"),
        (GATEWAY, &at("gateway", "/in/*"), "path", "`*`"),
        (GATEWAY, &at("gateway", "/in/%61"), "path", "`%`"),
        (ADMIN, &at("admin", "/v1/keys"), "path", "/v1/ingest/"),
        (ADMIN, &at("admin", "/v1/ingest/"), "path", "/v1/ingest/"),
        (ADMIN, &at("admin", "/metrics"), "path", "/v1/ingest/"),
        (ADMIN, &at("admin", "/v1/ingest/../keys"), "path", "`..`"),
        (ADMIN, &at("admin", "/v1/ingest//orders"), "path", "`//`"),
        (ADMIN, &at("admin", "/v1/ingest/%2e%2e/keys"), "path", "`%`"),
        (ADMIN, &at("admin", "/v1/ingest/*"), "path", "`*`"),
        (
            ADMIN,
            &with(AT_ADMIN, "token_file = 'tokens'"),
            "token_file",
            "semel token create",
        ),
        (
            ADMIN,
            &with(AT_ADMIN, "hosts = ['a']"),
            "hosts",
            "`admin.hosts`",
        ),
        (
            ADMIN,
            &with(AT_ADMIN, "tls = { cert = 'c', key = 'k' }"),
            "tls",
            "`admin.tls`",
        ),
        (
            GATEWAY,
            &with(AT_GATEWAY, "tls = { cert = 'c', key = 'k' }"),
            "tls",
            "`gateway.tls`",
        ),
        (
            GATEWAY,
            &at("127.0.0.1:8080", "/in"),
            "listen",
            "`listen = \"gateway\"`",
        ),
        (
            ADMIN,
            &at("127.0.0.1:9464", "/in"),
            "listen",
            "`listen = \"admin\"`",
        ),
        (ADMIN, &at("console", "/in"), "listen", "`gateway` or"),
    ] {
        let found = faults(&folder, &format!("{tables}{}", pipeline("p", source)));
        let is_told = |it: &String| {
            it.contains(&format!("pipelines.p.source.{setting}: ")) && it.contains(told)
        };
        assert!(
            found.len() == 1 && is_told(&found[0]),
            "{tables}{source}: {found:?}"
        );
    }
    let two = format!(
        "{GATEWAY}{}{}",
        pipeline("p", AT_GATEWAY),
        pipeline("q", AT_GATEWAY)
    );
    let found = faults(&folder, &two);
    assert!(
        found.len() == 1 && found[0].contains("`p` has this path"),
        "{found:?}"
    );
    // A gateway that cannot be read says so itself.
    let faulty = GATEWAY.replace("127.0.0.1:8080", "here");
    let found = faults(&folder, &format!("{faulty}{}", pipeline("p", AT_GATEWAY)));
    assert!(
        found.len() == 1 && found[0].contains("gateway.listen"),
        "{found:?}"
    );
}

#[test]
fn the_same_path_at_two_listeners_is_two_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tokens"), "0123456789abcdef\n").expect("a file");
    let of = |name: &str, listen: &str| {
        let source = format!("listen = '{listen}'\npath = '/v1/ingest/orders'");
        let tokens = { listen == "gateway" }.then_some("token_file = 'tokens'");
        pipeline(name, &format!("{source}\n{}", tokens.unwrap_or_default()))
    };
    let (p, q, r) = (of("p", "gateway"), of("q", "admin"), of("r", "127.0.0.1:0"));
    let any_port = |it: &str| it.replace(":8080", ":0").replace(":9464", ":0");
    let tables = any_port(&format!("{GATEWAY}{ADMIN}"));
    assert_eq!(faults(&folder, &format!("{tables}{p}{q}{r}")), [""; 0]);
}
