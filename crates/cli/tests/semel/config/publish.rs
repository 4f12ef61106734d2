//! Settings of effects that publish, and of dead letters that go to a broker.

use super::{effect_faults, faults};
use crate::site::Site;

#[test]
fn an_effect_that_publishes_names_its_place_and_what_it_promises() {
    for (effect, expected) in [
        (
            "kind = \"kafka\"",
            &["brokers: is missing", "topic: is missing"][..],
        ),
        (
            "kind = \"nats\"",
            &["url: is missing", "subject: is missing"],
        ),
        (
            "kind = \"amqp\", url = \"amqp://h\"",
            &["queue: is missing"],
        ),
        (
            "kind = \"amqp\", url = \"amqp://h\", queue = \"q\", exchange = \"e\"",
            &["queue: either `queue`, or `exchange` and `routing_key`, not both"],
        ),
        (
            "kind = \"amqp\", url = \"amqp://h\", queue = \"q\", class = \"keyed\"",
            &["provider_window: is missing"],
        ),
        (
            "kind = \"kafka\", brokers = \"h\", topic = \"t\", provider_window = \"1h\"",
            &["provider_window: belongs to `class = \"keyed\"`"],
        ),
        (
            "kind = \"kafka\", brokers = \"h\", topic = \"t\", class = \"keyed\", provider_window = \"1h\", \
             id_header = false",
            &[
                "id_header: whoever reads drops a second message by its id, which is what `class = \
                 \"keyed\"` rests on; leave the id in, or choose another class",
            ],
        ),
        (
            "kind = \"nats\", url = \"nats://h\", subject = \"s\", on_doubt = \"park\"",
            &[
                "on_doubt: belongs to `class = \"unkeyed\"`; a keyed effect is repeated inside its \
                 provider's window and in doubt past it",
            ],
        ),
        (
            "kind = \"nats\", url = \"nats://h\", subject = \"s\", timeout = \"10ms\"",
            &["timeout: must be a second at least"],
        ),
        (
            "kind = \"amqq\"",
            &["kind: `amqq` is no kind of effect; did you mean `amqp`?"],
        ),
    ] {
        let expected = expected.iter();
        let expected: Vec<_> = expected
            .map(|it| format!("2: pipelines.p.effect.{it} [invalid-config]"))
            .collect();
        assert_eq!(effect_faults(effect), expected, "{effect}");
    }
    for sound in [
        "kind = \"kafka\", brokers = \"h\", topic = \"t\"",
        "kind = \"kafka\", brokers = \"h\", topic = \"t\", id_header = false",
        "kind = \"kafka\", brokers = \"h\", topic = \"t\", class = \"keyed\", provider_window = \"1h\"",
        "kind = \"nats\", url = \"nats://h\", subject = \"s\"",
        "kind = \"nats\", url = \"nats://h\", subject = \"s\", class = \"unkeyed\", on_doubt = \"repeat\"",
        "kind = \"amqp\", url = \"amqp://h\", queue = \"q\"",
        "kind = \"amqp\", url = \"amqp://h\", exchange = \"e\", routing_key = \"k\", timeout = \"5s\"",
    ] {
        is_sound(&format!("effect = {{ {sound} }}"));
    }
}

#[test]
fn dead_letters_go_to_a_broker_or_stay_in_the_store() {
    let dead_letter = |settings: &str| {
        faults(&format!(
            "[pipelines.p]\nsource = {{ kind = \"stdin\" }}\nkey = \"line\"\neffect = {{ kind = \"stdout\" \
             }}\ndead_letter = {{ {settings} }}\n"
        ))
    };
    for (settings, expected) in [
        ("topic = \"t\"", "kind: is missing [invalid-config]"),
        (
            "kind = \"file\", path = \"dead\"",
            "kind: dead letters cannot go to `file`; known are kafka, nats, amqp; without `dead_letter`, the \
             store keeps them [invalid-config]",
        ),
        (
            "kind = \"nats\", url = \"nats://h\", subject = \"s\", class = \"keyed\"",
            "class: unknown setting; known are credentials, kind, subject, timeout, tls, url, \
             url_file [config-unknown-key]",
        ),
    ] {
        assert_eq!(
            dead_letter(settings),
            [format!("5: pipelines.p.dead_letter.{expected}")],
            "{settings}"
        );
    }
    is_sound(
        "effect = { kind = \"stdout\" }\ndead_letter = { kind = \"amqp\", url = \"amqp://h\", queue = \"q\" }",
    );
}

fn is_sound(settings: &str) {
    let config =
        format!("[pipelines.p]\nsource = {{ kind = \"stdin\" }}\nkey = \"line\"\n{settings}\n");
    Site::with(&[("semel.toml", &config)])
        .semel(&["config", "check"])
        .done();
}
