use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::all_backends::ALL_BACKENDS;
use crate::{Fault, Overrides, Settings, SourceSettings};

/// A folder with a secret.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let it = Self(folder);
        it.write("secret", "It's a Secret to Everybody\n");
        it
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, text: &str) -> Result<Settings, Vec<Fault>> {
        let name = self.path("semel.toml");
        let overrides = Overrides::default();
        let variables = std::iter::empty();
        let name = name.to_str().expect("a text");
        Settings::of(name, text, variables, &overrides, ALL_BACKENDS)
    }

    fn faults(&self, text: &str) -> Vec<String> {
        let faults = self.read(text).err().unwrap_or_default();
        faults.iter().map(ToString::to_string).collect()
    }

    fn source(&self, source: &str) -> WebhookSettings {
        let settings = self.read(&pipeline("p", source));
        let source = settings.expect("sound settings").pipelines.remove(0).source;
        match source {
            SourceSettings::Webhook(webhook) => webhook,
            other => panic!("{other:?}"),
        }
    }
}

fn pipeline(name: &str, source: &str) -> String {
    format!(
        "[pipelines.{name}]\nkey = 'hash'\neffect = {{ kind = 'stdout' }}\n\
         [pipelines.{name}.source]\nkind = 'webhook'\n{source}\n"
    )
}

const GITHUB: &str =
    "listen = '127.0.0.1:8282'\npath = '/github'\nverify = 'github'\nsecret_file = 'secret'";
const NONE: &str = "listen = '127.0.0.1:8282'\npath = '/in'\nverify = 'none'";

#[test]
fn a_webhook_has_the_defaults_of_its_provider() {
    let folder = Folder::new();
    let it = folder.source(GITHUB);
    assert_eq!(it.listen, "127.0.0.1:8282".parse().expect("an address"));
    assert_eq!(&*it.path, "/github");
    let expected = Verification::new(Scheme::GitHub, "It's a Secret to Everybody");
    assert_eq!(Ok(it.verification), expected);
    assert_eq!(it.answer_within, Duration::from_secs(9));
    assert_eq!((it.max_body_bytes, it.max_in_hand), (25 << 20, 1_000));
    for (verify, millis) in [("slack", 2_500), ("shopify", 4_500), ("stripe", 9_000)] {
        let it = folder.source(&GITHUB.replace("github'\ns", &format!("{verify}'\ns")));
        assert_eq!(it.answer_within, Duration::from_millis(millis), "{verify}");
        assert_eq!(it.verification.scheme().as_str(), verify);
    }
    let hmac = GITHUB.replace(
        "verify = 'github'",
        "verify = 'hmac'\nheader = 'X-Signature'\nencoding = 'base64'",
    );
    let scheme = Scheme::hmac("x-signature", Encoding::Base64).expect("a name");
    assert_eq!(folder.source(&hmac).verification.scheme(), &scheme);
}

#[test]
fn a_bad_value_is_told() {
    let folder = Folder::new();
    folder.write("empty", " \n");
    let cases = [
        ("verify = 'github'", "", "verify: is missing"),
        ("'github'\ns", "'gihub'\ns", "did you mean `github`?"),
        ("listen = '127.0.0.1:8282'", "", "listen: is missing"),
        (
            "127.0.0.1:8282",
            "8282",
            "listen: must be an address and a port",
        ),
        ("path = '/github'", "", "path: is missing"),
        ("'/github'", "'github'", "`github` is no path"),
        ("'/github'", "'/git?hub'", "is no path"),
        ("'/github'", "'/git hub'", "is no path"),
        ("secret_file = 'secret'", "", "secret_file: is missing"),
        ("'secret'", "'nowhere'", "secret_file: cannot read `"),
        (
            "'secret'",
            "'empty'",
            "holds no secret; it holds one a line",
        ),
        (
            "'github'\ns",
            "'standard'\ns",
            "line 1 is no secret of Standard Webhooks",
        ),
        ("'github'\ns", "'none'\ns", "nothing is verified with it"),
        ("'github'\ns", "'hmac'\ns", "header: is missing"),
        (
            "'github'\ns",
            "'hmac'\nheader = 'a b'\ns",
            "`a b` is no name of a header",
        ),
        (
            "'secret'",
            "'secret'\nheader = 'X-Sig'",
            "is for `verify = \"hmac\"`",
        ),
        (
            "'secret'",
            "'secret'\nencoding = 'binary'",
            "`binary` is unknown",
        ),
        (
            "'secret'",
            "'secret'\nhosts = 'hooks.example'",
            "hosts: is for `verify = \"none\"`",
        ),
        (
            "verify = 'github'\nsecret_file = 'secret'",
            "verify = 'none'\nhosts = 'http://hooks.example'",
            "is no name of a host",
        ),
        (
            "'secret'",
            "'secret'\nmax_body = '1GiB'",
            "max_body: must be from",
        ),
        (
            "'secret'",
            "'secret'\nanswer_within = '1h'",
            "answer_within: must be from",
        ),
        (
            "'secret'",
            "'secret'\ntolerance = '0s'",
            "tolerance: must be from",
        ),
        (
            "'secret'",
            "'secret'\nmax_in_hand = 0",
            "max_in_hand: must be from 1",
        ),
        (
            "'secret'",
            "'secret'\ntls = { cert = 'a.pem' }",
            "tls.key: is missing",
        ),
        (
            "'secret'",
            "'secret'\ntls = { cert = 'a.pem', key = 'b.pem', client_ca = 'c.pem' }",
            "tls.client_ca: has no place here",
        ),
        (
            "'secret'",
            "'secret'\nsecret = 'x'",
            "secret: unknown setting",
        ),
    ];
    for (old, new, told) in cases {
        let text = pipeline("p", &GITHUB.replacen(old, new, 1));
        let faults = folder.faults(&text);
        assert!(
            matches!(&*faults, [it] if it.contains(told)),
            "{text}: {faults:?}"
        );
        assert!(!faults[0].contains("Everybody"), "{faults:?}");
    }
}

#[test]
fn unsigned_requests_are_taken_from_this_machine_alone_unless_that_is_accepted() {
    let folder = Folder::new();
    for address in ["127.0.0.1:8282", "[::1]:8282", "[::ffff:127.0.0.1]:8282"] {
        assert!(
            folder
                .source(&NONE.replace("127.0.0.1:8282", address))
                .is_open()
        );
    }
    let open = pipeline("p", &NONE.replace("127.0.0.1", "0.0.0.0"));
    let faults = folder.faults(&open);
    let told = "source.verify: nothing is verified, and other machines reach this address";
    assert!(matches!(&*faults, [it] if it.contains(told)), "{faults:?}");
    let accepted = open.replace(
        "key = 'hash'",
        "key = 'hash'\naccept = ['webhook-unverified']",
    );
    let settings = folder.read(&accepted).expect("sound settings");
    assert_eq!(settings.pipelines[0].waived.names(), ["webhook-unverified"]);
}

#[test]
fn unsigned_requests_call_a_listener_by_the_names_that_are_set() {
    let folder = Folder::new();
    assert_eq!(folder.source(NONE).hosts, []);
    let named = folder.source(&format!("{NONE}\nhosts = ['hooks.example', 'semel']"));
    assert_eq!(named.hosts, ["hooks.example".into(), "semel".into()]);
}

#[test]
fn pipelines_share_an_address_but_not_a_path() {
    let folder = Folder::new();
    let two = |one: &str, other: &str| {
        let text = pipeline("a", one) + &pipeline("b", other);
        folder.faults(&text)
    };
    assert_eq!(two(NONE, &NONE.replace("/in", "/other")), [""; 0]);
    assert_eq!(two(NONE, &NONE.replace("8282", "8283")), [""; 0]);
    let same = two(NONE, NONE);
    let told = "pipelines.b.source.path: `a` has this path at the same address";
    assert!(matches!(&*same, [it] if it.contains(told)), "{same:?}");
    let all = GITHUB.replace("127.0.0.1", "0.0.0.0");
    let met = two(NONE, &all);
    let told = "pipelines.b.source.listen: meets the address of `a`; write the same address";
    assert!(matches!(&*met, [it] if it.contains(told)), "{met:?}");
}

#[test]
fn a_webhook_encrypts_with_its_certificate_and_pipelines_at_one_address_have_the_same() {
    let folder = Folder::new();
    assert_eq!(folder.source(NONE).tls, None);
    let encrypted = format!("{NONE}\ntls = {{ cert = 'a.pem', key = '/b.pem' }}");
    let it = folder.source(&encrypted);
    let tls = it.tls.as_ref().expect("a certificate");
    assert_eq!((&tls.cert, &tls.client_ca), (&folder.path("a.pem"), &None));
    assert_eq!(tls.key, PathBuf::from("/b.pem"));
    let shown = "https://127.0.0.1:8282/in, verify none";
    assert_eq!(it.to_string(), shown);
    let beside = |other: &str| {
        let other = other.replace("/in", "/other");
        folder.faults(&(pipeline("a", &encrypted) + &pipeline("b", &other)))
    };
    assert_eq!(beside(&encrypted), [""; 0]);
    for other in [NONE, &encrypted.replace("a.pem", "c.pem")] {
        let faults = beside(other);
        let told = "pipelines.b.source.tls: differs from that of `a`, which has the same address";
        assert!(matches!(&*faults, [it] if it.contains(told)), "{faults:?}");
    }
}

#[test]
fn a_webhook_has_another_address_than_the_other_listeners() {
    let folder = Folder::new();
    for table in ["admin", "claims"] {
        let listener = |address: &str| {
            let text = format!("[{table}]\nlisten = '{address}'\n");
            folder.faults(&(text + &pipeline("p", NONE)))
        };
        assert_eq!(listener("127.0.0.1:8283"), [""; 0]);
        for address in ["127.0.0.1:8282", "0.0.0.0:8282"] {
            let faults = listener(address);
            let told = format!("p.source.listen: meets the address of `{table}.listen`");
            assert!(matches!(&*faults, [it] if it.contains(&told)), "{faults:?}");
        }
    }
}

#[test]
fn a_missing_key_is_suggested_by_provider() {
    let folder = Folder::new();
    for (verify, key) in [
        ("github", "\"header:x-github-delivery\""),
        ("stripe", "\"json:/id\""),
        ("slack", "\"json:/event_id\""),
        (
            "shopify",
            "[\"header:x-shopify-event-id\", \"header:x-shopify-topic\"]",
        ),
    ] {
        let source = GITHUB.replace("github'\ns", &format!("{verify}'\ns"));
        let text = pipeline("p", &source).replace("key = 'hash'\n", "");
        let faults = folder.faults(&text);
        let told = format!("p.key: is missing; for these webhooks, `key = {key}`");
        assert!(matches!(&*faults, [it] if it.contains(&told)), "{faults:?}");
        let text = pipeline("p", &source).replace("'hash'", key);
        assert_eq!(folder.faults(&text), [""; 0], "{verify}");
    }
}

#[test]
fn a_group_of_this_process_may_read_a_secret_and_nobody_else_may() {
    let own = [1000, 2000];
    for (mode, group, expected) in [
        (0o600, 3000, false),
        // A volume of secrets under `fsGroup`, of 0400 and of 0600.
        (0o440, 2000, false),
        (0o640, 2000, false),
        (0o640, 1000, false),
        (0o440, 3000, true),
        (0o640, 3000, true),
        // A group that can change it, and others that can read it.
        (0o660, 2000, true),
        (0o620, 2000, true),
        (0o444, 2000, true),
        (0o644, 2000, true),
        (0o642, 2000, true),
    ] {
        let told = format!("{mode:o} of {group}");
        assert_eq!(is_exposed(mode, group, &own), expected, "{told}");
    }
    assert!(own_groups().contains(&rustix::process::getegid().as_raw()));
}
