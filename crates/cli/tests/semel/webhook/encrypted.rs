//! Encrypted webhooks, and the file of their secret.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use semel_conformance::certificates::Authority;
use serde_json::Value;

use super::provider::Provider;
use super::{fate, site, start};
use crate::site::{Site, wait_for};

#[test]
fn a_provider_delivers_over_tls_and_in_the_clear_nobody_is_answered() {
    let authority = Authority::new();
    let (server, other) = (authority.issue("hooks", &[]), authority.issue("other", &[]));
    let plain = Provider::new();
    let provider = plain.encrypted(&authority.path);
    let site = site(&provider, "");
    let config = site.text("semel.toml");
    let tls = |cert, key| format!("{config}tls = {{ cert = {cert:?}, key = {key:?} }}\n");
    site.write("semel.toml", tls(&server.cert, &other.key));
    let refused = site.semel(&["run"]).code(2);
    assert!(refused.stderr.contains("is not that of"), "{refused:?}");
    let found = site.semel(&["check"]).code(1).stdout;
    let said = ["source-unavailable", "is not that of"].map(|it| found.contains(it));
    assert_eq!(said, [true; 2], "{found}");
    site.write("semel.toml", tls(&server.cert, &server.key));
    assert!(!codes(&site).contains(&"source-unavailable".to_owned()));
    let mut running = start(&site, &provider);
    let place = format!("takes webhooks at https://{}/github", provider.address());
    wait_for("the line", || running.stderr().contains(&place));
    let deliver = |id| provider.deliver("/github", id, b"{\"action\":\"opened\"}");
    assert_eq!(fate(deliver("d-1")), (200, "applied".to_owned()));
    assert_eq!(fate(deliver("d-1")), (200, "replayed".to_owned()));
    let clear = plain.deliver("/github", "d-2", b"{}");
    assert!(clear.is_none(), "{clear:?}");
    // One that trusts another authority does not go on.
    let stranger = Authority::new();
    let wary = plain.encrypted(&stranger.path);
    let unsent = wary.deliver("/github", "d-3", b"{}");
    assert!(unsent.is_none(), "{unsent:?}");
    assert_eq!(fate(deliver("d-4")), (200, "applied".to_owned()));
    running.signal(Signal::TERM);
    running
        .wait()
        .done()
        .summary()
        .is(&[("applied", 2), ("replayed", 1)]);
    assert_eq!(site.text("events.ndjson").lines().count(), 2);
}

#[test]
fn a_secret_that_others_can_read_is_told_by_check_and_at_the_start() {
    let provider = Provider::new();
    let site = site(&provider, "");
    // Below folders that everybody may enter.
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let rights = |mode| Permissions::from_mode(mode);
    set_permissions(folder.path(), rights(0o755)).expect("a right");
    let secret = folder.path().join("the secret");
    std::fs::write(&secret, super::provider::SECRET).expect("a file");
    let config = site.text("semel.toml");
    let config = config.replace(
        "secret_file = \"secret\"",
        &format!("secret_file = {secret:?}"),
    );
    site.write("semel.toml", config);
    for (mode, is_told) in [(0o644, true), (0o440, false)] {
        set_permissions(&secret, rights(mode)).expect("a right");
        assert_eq!(codes(&site).contains(&"secret-exposed".to_owned()), is_told);
        let mut running = start(&site, &provider);
        wait_for("the line", || {
            running.stderr().contains("takes webhooks at http://")
        });
        assert_eq!(fate(provider.deliver("/github", "d-1", b"{}")).0, 200);
        let said = format!(
            "events: other users of this machine can read or change {0}, and so sign requests; take the right away: \
             chmod go= '{0}'",
            secret.display()
        );
        assert_eq!(running.stderr().contains(&said), is_told, "{mode:o}");
        assert!(!running.stderr().contains(super::provider::SECRET));
        running.signal(Signal::TERM);
        running.wait().done();
    }
    site.semel(&["explain", "secret-exposed"]).done();
}

/// The codes of what `semel check` finds.
fn codes(site: &Site) -> Vec<String> {
    let report = site.semel(&["check", "--output", "json"]).done().stdout;
    let report: Value = serde_json::from_str(report.trim()).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    let code = |it: &Value| it["code"].as_str().expect("a code").to_owned();
    findings.iter().map(code).collect()
}
