//! `semel token`: makes, lists and revokes.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::site::{Ended, Site};

const CLAIMS: &str = "[claims]\nlisten = \"127.0.0.1:8181\"\n";

fn object(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("no JSON: {ended:#?}"))
}

#[test]
fn a_token_is_made_listed_and_revoked() {
    let site = Site::with(&[("semel.toml", CLAIMS)]);
    site.semel(&["token", "list"]).done().says("no tokens");
    let made = site.semel(&["token", "create", "billing", "--role", "operator"]);
    let made = made.done().says("the only time that the token is shown");
    let secret = made.stdout.trim().to_owned();
    assert!(
        secret.starts_with("semel_") && secret.len() > 64,
        "{secret}"
    );
    let kept = site.text("semel-tokens.json");
    assert!(!kept.contains(&secret[6..]), "{kept}");
    let file = std::fs::metadata(site.path("semel-tokens.json")).expect("a file");
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let words = "token create acme --role viewer --tenant acme --expires 90d --output json";
    let words: Vec<_> = words.split(' ').collect();
    let made = object(&site.semel(&words).done());
    assert!(
        made["token"]
            .as_str()
            .is_some_and(|it| it.starts_with("semel_")),
        "{made}"
    );
    assert_eq!(made["tenant"], "acme");
    let listed = site
        .semel(&["token", "list", "--output", "jsonl"])
        .done()
        .stdout;
    let listed: Vec<Value> = listed
        .lines()
        .map(|it| serde_json::from_str(it).expect("JSON"))
        .collect();
    let members = |at: usize| {
        ["name", "role", "tenant", "expires", "is_expired"].map(|name| listed[at][name].clone())
    };
    assert_eq!(
        members(0)[..3],
        [json!("billing"), json!("operator"), json!(null)]
    );
    assert_eq!(
        members(1)[..3],
        [json!("acme"), json!("viewer"), json!("acme")]
    );
    assert!(
        members(1)[3].is_string() && members(1)[4] == false,
        "{listed:?}"
    );
    assert!(!format!("{listed:?}").contains("semel_"), "{listed:?}");
    site.semel(&["token", "create", "billing", "--role", "admin"])
        .code(1)
        .says("there is a token `billing` already");
    site.semel(&["token", "revoke", "billing"])
        .code(1)
        .says("plan: revoke 1 token")
        .says("semel token revoke billing --yes");
    assert_eq!(site.text("semel-tokens.json").matches("billing").count(), 1);
    let gone = site.semel(&["token", "revoke", "billing", "--yes"]);
    gone.done().says("revoked `billing`");
    site.semel(&["token", "revoke", "billing", "--yes"])
        .code(1)
        .says("there is no token `billing`");
}

#[test]
fn tokens_are_kept_where_the_configuration_says() {
    let text = format!("{CLAIMS}[tokens]\nfile = \"kept/tokens.json\"\n");
    let site = Site::with(&[("conf.toml", &text)]);
    std::fs::create_dir(site.path("kept")).expect("a folder");
    let words = [
        "token",
        "create",
        "a",
        "--role",
        "viewer",
        "--config",
        "conf.toml",
    ];
    site.semel(&words).done();
    assert!(site.path("kept/tokens.json").exists());
    assert!(!site.path("semel-tokens.json").exists());
    std::fs::remove_dir_all(site.path("kept")).expect("removed");
    site.semel(&words).code(3).says("cannot be written");
}

#[test]
fn a_damaged_file_is_told_and_left_alone() {
    let site = Site::with(&[("semel.toml", CLAIMS), ("semel-tokens.json", "{")]);
    for words in [
        &["token", "list"][..],
        &["token", "create", "a", "--role", "viewer"],
        &["token", "revoke", "a", "--yes"],
        &["run"],
    ] {
        site.semel(words)
            .code(2)
            .says("semel-tokens.json is damaged");
    }
    assert_eq!(site.text("semel-tokens.json"), "{");
}

#[test]
fn what_makes_no_token_is_a_usage_error() {
    let site = Site::with(&[("semel.toml", CLAIMS)]);
    for words in [
        "token create a",
        "token create a --role root",
        "token create a --role viewer --expires 0s",
        "token create a --role viewer --expires soon",
        "token create a --role viewer --tenant a\u{7}",
        "token create  --role viewer",
        "token revoke",
    ] {
        let words: Vec<_> = words.split(' ').collect();
        site.semel(&words).code(2);
    }
    site.semel(&["token", "list", "--config", "other.toml"])
        .code(2)
        .says("cannot read the configuration");
    assert!(!site.path("semel-tokens.json").exists());
}
