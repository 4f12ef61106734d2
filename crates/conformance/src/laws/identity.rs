//! Identity: operations that look alike and are not the same.

use semel_core::{ClaimId, ClaimRequest, Fingerprint, Key, Operation, Scope};

use crate::lab::{Lab, scope, scope_of};
use crate::steps::{complete, outcome};

/// `pay` is not `PAY`.
pub async fn keys_differ_by_case(lab: Lab) {
    texts_never_meet(
        &lab,
        &["pay", "PAY", "Pay", "straße", "STRASSE", "ı", "i", "I", "İ"],
    )
    .await;
}

/// `é` is not `e`.
pub async fn keys_differ_by_accent(lab: Lab) {
    texts_never_meet(
        &lab,
        &["resume", "résumé", "resumé", "ss", "ß", "æ", "ae", "Å", "A"],
    )
    .await;
}

/// `é` in one code point is not `é` in two.
pub async fn keys_differ_by_unicode_form(lab: Lab) {
    let forms = [
        "\u{e9}", "e\u{301}", "\u{212b}", "\u{c5}", "A\u{30a}", "\u{fb01}", "fi",
    ];
    texts_never_meet(&lab, &forms).await;
}

/// White space counts, before, after and between.
pub async fn keys_differ_by_white_space(lab: Lab) {
    let keys = [
        "a",
        " a",
        "a ",
        "a  ",
        "a\u{a0}",
        "a\u{3000}",
        "a b",
        "a  b",
        "ab",
    ];
    texts_never_meet(&lab, &keys).await;
}

/// Lines are keys, whatever bytes they hold: tabs, carriage returns, zero bytes, nothing.
pub async fn keys_differ_by_control_characters(lab: Lab) {
    let lines = [
        "",
        "a",
        "a\t",
        "a\r",
        "a\n",
        "a\0",
        "a\0b",
        "a\u{7f}",
        "\u{feff}a",
        "a\u{200b}",
    ];
    texts_never_meet(&lab, &lines).await;
}

/// A number is not the string that looks like it.
pub async fn keys_differ_by_type(lab: Lab) {
    let keys = [
        "json:1",
        "1",
        "json:\"json:1\"",
        "json:[1]",
        "json:[\"1\"]",
        "01",
        "+1",
        "1.0",
    ];
    texts_never_meet(&lab, &keys).await;
}

/// Numbers are compared at full precision.
pub async fn keys_differ_by_the_last_digit(lab: Lab) {
    let keys = [
        "json:9007199254740992",
        "json:9007199254740993",
        "json:9007199254740993.1",
        "json:18446744073709551615",
        "json:18446744073709551616",
        "json:-1",
        "json:1e-400",
        "json:0",
    ];
    texts_never_meet(&lab, &keys).await;
}

/// One number in two notations is one key.
pub async fn keys_of_equal_value_are_one(lab: Lab) {
    lab.finish(&parsed(&lab, "json:1", 1), complete("done"))
        .await;
    for same in ["json:1.0", "json:1e0", "json: 1", "json:0.1e1"] {
        lab.replays(&parsed(&lab, same, 2), &outcome("done")).await;
    }
    lab.finish(&parsed(&lab, "plain", 1), complete("done"))
        .await;
    lab.replays(&parsed(&lab, "json:\"plain\"", 2), &outcome("done"))
        .await;
}

/// Parts that are joined alike stay apart.
pub async fn joined_keys_differ_by_their_parts(lab: Lab) {
    let keys = [
        "json:[\"a\",\"b\"]",
        "json:[\"ab\"]",
        "json:[\"a\",1]",
        "json:[\"a\",\"1\"]",
        "json:[\"a\",[\"b\"]]",
        "json:[[\"a\",\"b\"]]",
        "json:[\"a,b\"]",
        "json:[\"a\\\",\\\"b\"]",
        "a,b",
        "ab",
    ];
    texts_never_meet(&lab, &keys).await;
}

/// Keys that begin alike differ at their 1,024th byte.
pub async fn long_keys_differ_at_their_end(lab: Lab) {
    let stem = "k".repeat(Key::MAX_BYTES - 1);
    let keys = [
        format!("{stem}a"),
        format!("{stem}b"),
        stem.clone(),
        stem[1..].to_owned(),
    ];
    texts_never_meet(&lab, &keys.each_ref().map(String::as_str)).await;
}

/// Wildcards, quotes and separators of query languages are letters.
pub async fn keys_are_never_patterns_or_code(lab: Lab) {
    let keys = [
        "%",
        "_",
        "*",
        "?",
        "a%",
        "a_",
        "ab",
        "[ab]",
        "a*",
        "'",
        "''",
        "\"",
        "\\",
        "\\'",
        "a'--",
        "'; DROP TABLE records; --",
        "a:b",
        "a::b",
        "{a}",
        "{b}",
        "$1",
        ":key",
        "@key",
        "#",
        "null",
        "NULL",
        "undefined",
        "0",
        "false",
        "../a",
        "./a",
        "a/b",
    ];
    texts_never_meet(&lab, &keys).await;
}

/// Characters outside the first plane are told apart.
pub async fn keys_differ_by_emoji(lab: Lab) {
    let keys = [
        "\u{1f4a9}",
        "\u{1f4aa}",
        "\u{1f468}\u{200d}\u{1f467}",
        "\u{1f468}\u{1f467}",
        "?",
    ];
    texts_never_meet(&lab, &keys).await;
}

/// The same key of two tenants is two operations.
pub async fn tenants_never_meet(lab: Lab) {
    let scopes = ["", "acme", "ACME", "acme ", "acmé", "%"].map(|tenant| scope_of(tenant, "pay"));
    operations_never_meet(&lab, scopes.map(|scope| operation(&scope, "1")).to_vec()).await;
}

/// The same key of two operation names is two operations.
pub async fn operation_names_never_meet(lab: Lab) {
    let scopes = ["pay", "PAY", "pay ", "páy", "refund"].map(|name| scope_of("acme", name));
    operations_never_meet(&lab, scopes.map(|scope| operation(&scope, "1")).to_vec()).await;
}

/// Tenant, operation and key that read alike when run together stay apart.
pub async fn parts_never_run_into_each_other(lab: Lab) {
    let parts = [
        ("a", "b", "c"),
        ("", "ab", "c"),
        ("ab", "c", "c"),
        ("a", "bc", "c"),
        ("", "a", "bc"),
        ("a", "b:c", "d"),
        ("a:b", "c", "d"),
        ("a", "b", "c:d"),
        ("a/b", "c", "d"),
        ("a", "b/c", "d"),
        ("a b", "c", "d"),
        ("a", "b c", "d"),
    ];
    let operation = |(tenant, name, key)| operation(&scope_of(tenant, name), key);
    operations_never_meet(&lab, parts.map(operation).to_vec()).await;
}

/// Scopes as long as they may be differ at their end.
pub async fn long_scopes_differ_at_their_end(lab: Lab) {
    let stem = "s".repeat(Scope::MAX_BYTES - 1);
    let [a, b] = ["a", "b"].map(|end| format!("{stem}{end}"));
    let scopes = [
        scope_of(&a, &a),
        scope_of(&a, &b),
        scope_of(&b, &a),
        scope_of(&b, &b),
    ];
    operations_never_meet(&lab, scopes.map(|scope| operation(&scope, "1")).to_vec()).await;
}

/// An operation that is listed and read is the one that was claimed, byte for byte.
pub async fn an_operation_comes_back_as_it_went_in(lab: Lab) {
    let asked = operation(
        &scope_of("acmé %", "páy 'x'"),
        "json:[\"ä\",1.50,\"\\u0000\"]",
    );
    let request = ClaimRequest {
        operation: asked.clone(),
        fingerprint: Some(Fingerprint {
            scheme: u32::MAX,
            digest: [0xfe; 16],
        }),
        transport: Some(bytes::Bytes::from_static(b"\x00\xff topic/3")),
        claim_id: ClaimId::from_u128(u128::MAX - 7),
        ..lab.request("pay-1", 1).clone()
    };
    let claim = lab.grant(&request).await;
    assert_eq!(claim.operation, asked);
    let query = semel_core::port::store::ListQuery {
        limit: 10,
        ..Default::default()
    };
    let listed = lab.list(&query).await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].operation, asked);
    let record = lab.record(&asked).await;
    assert_eq!(record.claim_id, request.claim_id);
    assert_eq!(
        (record.fingerprint, record.transport),
        (request.fingerprint, request.transport)
    );
}

async fn texts_never_meet(lab: &Lab, texts: &[&str]) {
    let scope = scope();
    operations_never_meet(
        lab,
        texts.iter().map(|text| operation(&scope, text)).collect(),
    )
    .await;
}

/// Checks that each operation is granted once, and replays its own outcome only.
async fn operations_never_meet(lab: &Lab, operations: Vec<Operation>) {
    let by = |operation: &Operation, claimant| ClaimRequest {
        operation: operation.clone(),
        ..lab.request("pay-1", claimant)
    };
    for (number, operation) in operations.iter().enumerate() {
        let claim = lab.grant(&by(operation, 1)).await;
        assert!(!claim.resumed, "{operation:?} met another operation");
        let own = complete(format!("outcome {number}"));
        lab.settles(&claim, own, semel_core::StateKind::Completed)
            .await;
    }
    for (number, operation) in operations.iter().enumerate() {
        lab.replays(&by(operation, 2), &outcome(format!("outcome {number}")))
            .await;
    }
}

fn operation(scope: &Scope, key: &str) -> Operation {
    match Key::parse(key) {
        Ok(key) => Operation::new(scope.clone(), key),
        Err(why) => panic!("{key:?} should be a key: {why}"),
    }
}

fn parsed(lab: &Lab, key: &str, claimant: u128) -> ClaimRequest {
    ClaimRequest {
        operation: operation(&scope(), key),
        ..lab.request("pay-1", claimant)
    }
}
