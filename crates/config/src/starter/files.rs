//! The files that `semel init` writes beside the configuration.

use std::time::Duration;

use semel_core::Timestamp;

use super::{Choice, EffectKind, StarterFile, settings_file};

/// Returns every file, the configuration last: without it, nothing runs.
pub(super) fn of(choice: Choice, now: Timestamp) -> Vec<StarterFile> {
    let beside = match choice.effect {
        EffectKind::Sql => Some(("setup.sql", include_str!("template/setup.sql"))),
        EffectKind::Http => Some(("server.py", include_str!("template/server.py"))),
        EffectKind::Exec => Some(("handler.sh", include_str!("template/handler.sh"))),
        EffectKind::Jsonl => Some(("handler.py", include_str!("template/handler.py"))),
        EffectKind::File
        | EffectKind::Stdout
        | EffectKind::Nats
        | EffectKind::Kafka
        | EffectKind::Amqp => None,
    };
    let beside = beside.map(|(name, text)| StarterFile {
        name,
        text: text.to_owned(),
    });
    let sample = StarterFile {
        name: "payments.ndjson",
        text: sample(now),
    };
    let config = StarterFile {
        name: "semel.toml",
        text: settings_file::text(choice),
    };
    let files = [Some(sample), beside, Some(config)];
    files.into_iter().flatten().collect()
}

/// Ten messages, born in the last minutes: five payments, two delivered again, one published again,
/// one key used for another amount, one message without a key.
fn sample(now: Timestamp) -> String {
    let born = |minutes: u64| now.minus(Duration::from_secs(60 * minutes));
    let line = |event: &str, tenant: &str, payment: &str, amount: u32, minutes: u64| {
        let payment = match payment {
            "" => String::new(),
            id => format!("\"payment\":\"{id}\","),
        };
        format!(
            "{{\"event\":\"{event}\",\"tenant\":\"{tenant}\",{payment}\"amount\":{amount},\
             \"currency\":\"EUR\",\"created_at\":\"{}\"}}\n",
            born(minutes)
        )
    };
    [
        line("e-1", "north", "pay-1", 1_250, 30),
        line("e-2", "south", "pay-2", 900, 29),
        line("e-1", "north", "pay-1", 1_250, 30),
        line("e-3", "north", "pay-3", 4_000, 27),
        line("e-4", "south", "pay-2", 900, 25),
        line("e-5", "south", "pay-4", 125, 24),
        line("e-6", "north", "pay-3", 4_100, 22),
        line("e-7", "south", "", 700, 21),
        line("e-8", "north", "pay-5", 60, 20),
        line("e-5", "south", "pay-4", 125, 24),
    ]
    .concat()
}
