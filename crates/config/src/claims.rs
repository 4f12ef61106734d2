//! `[claims]`: the address at which the claim API is served, and its habits; `[tokens]`: who may call it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use semel_core::Window;

use super::fields::Fields;
use super::listener::{self, Certificate, host};
use super::{paths, pipeline};

/// The claim API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimsSettings {
    /// Its address; without one, it is not served.
    pub listen: Option<SocketAddr>,
    /// The names by which clients call it, beside those of a loopback address.
    pub hosts: Vec<Box<str>>,
    /// The lease of a claim that names none.
    pub lease: Duration,
    /// The window of an operation that names none.
    pub window: Window,
    /// The largest body of a request.
    pub max_body_bytes: u64,
    /// The certificate that clients see; without one, they are answered in the clear.
    pub tls: Option<Certificate>,
}

/// A listener that serves the claim API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimsListener {
    /// The setting that names its address.
    pub setting: &'static str,
    /// Its address.
    pub address: SocketAddr,
    /// True if it encrypts.
    pub is_encrypted: bool,
}

/// The tokens of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokensSettings {
    /// The file that keeps them, which need not be there.
    pub file: PathBuf,
}

/// Reads `[claims]`.
pub(super) fn read(fields: &mut Fields<'_>, window: Window) -> Option<ClaimsSettings> {
    let is_alone = fields.is_written("claims")
        && !fields.is_written("pipelines")
        && !fields.is_written("gateway");
    let mut table = fields.optional_sub("claims")?;
    if is_alone && !table.is_written("listen") {
        table.missing("listen");
    }
    let listen = table.parsed_with("listen", |text| {
        text.parse().map_err(|_| {
            "must be an address and a port, as in `127.0.0.1:8181`; `0.0.0.0:8181` for all addresses"
                .to_owned()
        })
    });
    let hosts = table.words("hosts", host);
    let lease = pipeline::lease(&mut table, window);
    let max_body_bytes = table.size_bytes_or("max_body", MAX_BODY_BYTES);
    if let Some(node) = table.node("max_body")
        && !MAX_BODIES.contains(&max_body_bytes)
    {
        table.fault("max_body", node, "must be from `1KiB` to `256MiB`");
    }
    let tls = listener::tls(&mut table);
    table.finish();
    Some(ClaimsSettings {
        listen,
        hosts,
        lease,
        window,
        max_body_bytes,
        tls: tls?,
    })
}

/// Reads `[tokens]`.
pub(super) fn tokens(fields: &mut Fields<'_>) -> Option<TokensSettings> {
    let beside = paths::from(fields.origin.folder(), FILE.as_ref());
    let mut table = fields.optional_sub("tokens")?;
    let file = table.path("file");
    table.default("file", beside.to_string_lossy().into_owned());
    table.finish();
    Some(TokensSettings {
        file: file.unwrap_or(beside),
    })
}

/// Reads the name of a host, without a port.
/// Room for a thousand settlements with outcomes of several thousand bytes each.
const MAX_BODY_BYTES: u64 = 4 << 20;
const MAX_BODIES: std::ops::RangeInclusive<u64> = 1 << 10..=256 << 20;
const FILE: &str = "semel-tokens.json";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all_backends::ALL_BACKENDS;
    use crate::{Fault, Overrides, Settings};

    fn read(text: &str, overrides: &Overrides) -> Result<Settings, Vec<Fault>> {
        let variables = std::iter::empty();
        Settings::of("conf/semel.toml", text, variables, overrides, ALL_BACKENDS)
    }

    fn settings(text: &str) -> Settings {
        read(text, &Overrides::default()).expect("sound settings")
    }

    fn faults(text: &str) -> Vec<String> {
        let faults = read(text, &Overrides::default()).err().unwrap_or_default();
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn claims_need_no_pipeline() {
        let it = settings("[window]\nduration = '2d'\n[claims]\nlisten = '127.0.0.1:8181'\n");
        assert!(it.pipelines.is_empty());
        assert_eq!(it.claims.listen, "127.0.0.1:8181".parse().ok());
        assert_eq!(it.claims.lease, Duration::from_secs(30));
        assert_eq!(it.claims.window.duration(), Duration::from_secs(2 * 86_400));
        assert_eq!(it.claims.max_body_bytes, 4 << 20);
        assert_eq!(it.tokens.file, PathBuf::from("conf/semel-tokens.json"));
        for (nothing, missing) in [
            ("", "pipelines: is missing"),
            ("[claims]\n", "claims.listen: is missing"),
            ("[claims]\nlease = '1m'\n", "claims.listen: is missing"),
        ] {
            let faults = faults(nothing);
            assert!(
                matches!(&*faults, [it] if it.contains(missing)),
                "{faults:?}"
            );
        }
        let misspelt = faults("[claims]\nlisten = 'localhost:8181'\n");
        assert!(
            matches!(&*misspelt, [it] if it.contains("claims.listen: must be")),
            "{misspelt:?}"
        );
    }

    #[test]
    fn two_listeners_have_two_addresses() {
        let both = |admin: &str, claims: &str| {
            faults(&format!(
                "[admin]\nlisten = '{admin}'\n[claims]\nlisten = '{claims}'\n"
            ))
        };
        for (admin, claims) in [
            ("127.0.0.1:8181", "127.0.0.1:8181"),
            ("0.0.0.0:8181", "127.0.0.1:8181"),
            ("127.0.0.1:8181", "[::]:8181"),
        ] {
            let faults = both(admin, claims);
            assert!(
                matches!(&*faults, [it] if it.contains("claims.listen: meets the address")),
                "{faults:?}"
            );
        }
        for (admin, claims) in [
            ("127.0.0.1:8181", "127.0.0.1:8182"),
            ("127.0.0.2:8181", "127.0.0.1:8181"),
            ("127.0.0.1:0", "127.0.0.1:0"),
        ] {
            assert!(both(admin, claims).is_empty());
        }
    }

    #[test]
    fn the_file_of_tokens_is_named_from_the_folder_of_its_configuration() {
        let claims = "[claims]\nlisten = '127.0.0.1:8181'\n";
        for (file, path) in [
            ("tokens.json", "conf/tokens.json"),
            ("/etc/t.json", "/etc/t.json"),
        ] {
            let it = settings(&format!("{claims}[tokens]\nfile = '{file}'\n"));
            assert_eq!(it.tokens.file, PathBuf::from(path));
            assert_eq!(it.effective.text(&["tokens", "file"]), Some(path));
        }
        let it = settings(claims);
        let shown = it.effective.text(&["tokens", "file"]);
        assert_eq!(shown, Some("conf/semel-tokens.json"));
    }

    #[test]
    fn a_bad_value_is_told_with_its_line() {
        for (line, why) in [
            (
                "listen = '8181'",
                "claims.listen: must be an address and a port",
            ),
            (
                "listen = 'localhost:8181'",
                "claims.listen: must be an address",
            ),
            (
                "lease = '10ms'",
                "claims.lease: must be from `100ms` to `12h`",
            ),
            ("lease = '11d'", "claims.lease: must be from"),
            ("max_body = '1B'", "claims.max_body: must be from `1KiB`"),
            ("max_body = '1GiB'", "claims.max_body: must be from"),
            (
                "hosts = ['http://a']",
                "claims.hosts: `http://a` is no name of a host",
            ),
            ("hosts = 'a:1'", "claims.hosts: `a:1` is no name"),
            (
                "listn = '127.0.0.1:1'",
                "claims.listn: unknown setting; did you mean `listen`?",
            ),
        ] {
            let pipeline = "[pipelines.p]\nkey = 'line'\nsource = { kind = 'stdin' }\n\
                            effect = { kind = 'stdout' }\n";
            let faults = faults(&format!("{pipeline}[claims]\n{line}\n"));
            let is_told = |it: &String| it.starts_with("conf/semel.toml:6: ") && it.contains(why);
            assert!(
                matches!(&*faults, [it] if is_told(it)),
                "{line}: {faults:?}"
            );
        }
        let faults = faults("[claim]\nlisten = '127.0.0.1:1'\n");
        assert!(
            faults
                .iter()
                .any(|it| it.contains("did you mean `claims`?")),
            "{faults:?}"
        );
    }

    #[test]
    fn a_run_of_one_pipeline_serves_no_claims() {
        let text = "[pipelines.p]\nkey = 'line'\nsource = { kind = 'stdin' }\neffect = { kind = 'stdout' }\n\
                    [claims]\nlisten = '127.0.0.1:1'\n";
        let only = Overrides {
            pipeline: Some("p".into()),
            ..Overrides::default()
        };
        assert_eq!(
            read(text, &only).expect("sound settings").claims.listen,
            None
        );
        assert!(settings(text).claims.listen.is_some());
    }
}
