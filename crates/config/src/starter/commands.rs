//! The commands to type once the files of a start are written.

use super::brokers as broker;
use super::{Choice, EffectKind, SourceKind, StoreKind};

/// Returns the commands to type in the folder of the files.
pub(super) fn commands(choice: Choice) -> Vec<String> {
    let mut commands = Vec::new();
    match choice.effect {
        EffectKind::Sql => commands.extend(match choice.store {
            StoreKind::Postgres => Some(format!("psql {} -f setup.sql", StoreKind::Postgres.url())),
            StoreKind::Mysql => {
                Some("mysql --host=127.0.0.1 --user=semel semel < setup.sql".to_owned())
            }
            StoreKind::Sqlite => Some("(umask 077; sqlite3 payments.db < setup.sql)".to_owned()),
            StoreKind::Embedded | StoreKind::Redis => None,
        }),
        EffectKind::Http => commands.push("python3 server.py 9000 &".to_owned()),
        EffectKind::File
        | EffectKind::Exec
        | EffectKind::Jsonl
        | EffectKind::Stdout
        | EffectKind::Nats
        | EffectKind::Kafka
        | EffectKind::Amqp => {}
    }
    commands.extend(broker::target(choice.effect).map(str::to_owned));
    let check = "semel check --sample payments.ndjson".to_owned();
    let run = match choice.source {
        SourceKind::File => "semel run",
        SourceKind::Stdin => "semel run < payments.ndjson",
        SourceKind::Webhook => {
            commands.extend([check, "semel run &".to_owned(), SEND.to_owned()]);
            commands.push(format!("{SEND}   # again: nothing happens twice"));
            return commands;
        }
        SourceKind::Nats | SourceKind::Kafka | SourceKind::Amqp => {
            let [make, publish] = broker::source(choice.source).unwrap_or_default();
            commands.extend([make.to_owned(), publish.to_owned(), check]);
            commands.push(
                "semel run   # until Ctrl-C; publish the sample again: nothing happens twice"
                    .to_owned(),
            );
            return commands;
        }
    };
    commands.extend([check, run.to_owned()]);
    commands.push(format!("{run}   # again: nothing happens twice"));
    commands
}

/// The command that sends the sample, as a provider would.
const SEND: &str = "while read -r line; do curl --data-binary \"$line\" http://127.0.0.1:8282/payments </dev/null; done \
                    <payments.ndjson";

/// The commands to type once the files of a gateway are written.
pub const GATEWAY_COMMANDS: [&str; 5] = [
    "python3 upstream.py 9000 &   # stands for your API",
    "semel check",
    "semel run &",
    "curl -i http://127.0.0.1:8080/charges -H 'Idempotency-Key: pay-1' -d amount=4200",
    "curl -i http://127.0.0.1:8080/charges -H 'Idempotency-Key: pay-1' -d amount=4200   # again: charged once",
];
