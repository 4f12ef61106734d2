//! The metrics of a source of kind `ingest`: who was refused and why, what waits, and what is parked.

use super::*;

/// A request of a client, by its token.
fn of_client(
    client: &Provider,
    token: &str,
    identity: &[(&str, &str)],
    body: &[u8],
) -> Option<Reply> {
    let token = format!("Bearer {token}");
    let headers = [&[("Authorization", token.as_str())], identity].concat();
    client.send("POST", PATH, &headers, body)
}

#[test]
fn refusals_are_counted_by_client_and_what_waits_is_shown() {
    let (client, admin) = (Provider::new(), Admin::new());
    let effect = "effect = { kind = \"exec\", command = [\"sh\",\"handler.sh\"], class = \"keyed\", \
                  provider_window = \"30d\" }";
    let site = of_effect(
        &client,
        "embedded:data",
        effect,
        "require = true\ntoken_file = \"tokens\"",
    );
    let config = format!("{}\n{}", admin.table(), site.text("semel.toml"));
    site.write("semel.toml", config);
    let (till, shop, nameless) = ("0123456789abcdef", "fedcba9876543210", "aaaabbbbccccdddd");
    site.write(
        "tokens",
        format!("till-7 {till}\nshop {shop}\n{nameless}\n"),
    );
    site.write(
        "handler.sh",
        "cat > /dev/null; test -e quick || { sleep 30; exit 1; }\n",
    );
    let running = start(&site, &client);
    let numbered = |token, epoch: &str, sequence: &str| {
        let identity = [
            ("Semel-Producer", "billing-0a"),
            ("Semel-Epoch", epoch),
            ("Semel-Sequence", sequence),
        ];
        said(of_client(&client, token, &identity, b"{}"))
    };
    for (answer, status) in [
        (said(of_client(&client, till, &[], b"{}")), 400),
        (said(of_client(&client, nameless, &[], b"{}")), 400),
        (
            said(of_client(&client, "wrong-wrong-wrong", &[], b"{}")),
            401,
        ),
        (numbered(shop, "2", "4"), 409),
        (numbered(till, "2", "1"), 200),
        (numbered(till, "2", "5"), 409),
        (numbered(till, "2", "6"), 409),
        (numbered(shop, "1", "1"), 409),
    ] {
        assert_eq!(answer.0, status, "{}", answer.1);
    }
    for (reason, of, count) in [
        ("producer-missing", "till-7", 1),
        ("producer-missing", "", 1),
        ("producer-missing", "shop", 0),
        ("producer-unknown", "shop", 1),
        ("sequence-gap", "till-7", 2),
        ("producer-fenced", "shop", 1),
        ("producer-fenced", "till-7", 0),
    ] {
        let series = format!(
            "semel_ingest_refusals_total{{pipeline=\"orders\",reason=\"{reason}\",client=\"{of}\"}}"
        );
        assert_eq!(
            admin.value(&series),
            Some(count),
            "{series}\n{}",
            admin.metrics()
        );
    }
    let gauge = |name: &str| admin.value::<u64>(&format!("{name}{{pipeline=\"orders\"}}"));
    assert_eq!(gauge("semel_ingest_waiting_messages"), Some(1));
    assert_eq!(gauge("semel_ingest_parked_messages"), Some(0));
    let verb = |verb| {
        let store = "embedded:data";
        site.semel(&["producers", verb, "billing-0a", "--store", store, "--yes"])
    };
    verb("freeze").done();
    assert_eq!(numbered(till, "2", "2").0, 202);
    wait_for("the parked", || {
        gauge("semel_ingest_parked_messages") == Some(2)
    });
    assert_eq!(gauge("semel_ingest_waiting_messages"), Some(2));
    site.write("quick", "");
    verb("thaw").done();
    wait_for("the thaw", || {
        gauge("semel_ingest_parked_messages") == Some(0)
    });
    let metrics = admin.metrics();
    assert!(!metrics.contains("billing-0a"), "no producer is a label");
    running.signal(Signal::KILL);
}
