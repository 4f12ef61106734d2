//! The text of the `semel.toml` that `semel init` writes.

use super::brokers as broker;
use super::{Choice, EffectKind, Level, SourceKind, StoreKind};

/// Returns the configuration for a choice, with a comment on everything that is not obvious.
pub(super) fn text(choice: Choice) -> String {
    let Choice {
        source,
        store,
        effect,
        level,
    } = choice;
    let mut text = String::new();
    let mut add = |part: &str| text.push_str(part);
    add(match effect {
        EffectKind::Sql => "# Inserts each payment into a table once",
        EffectKind::File => "# Appends each payment to charged.ndjson once",
        EffectKind::Http => "# Sends each payment to a provider once",
        EffectKind::Exec | EffectKind::Jsonl => "# Hands each payment to a program once",
        EffectKind::Stdout => "# Prints each payment once",
        EffectKind::Nats | EffectKind::Kafka | EffectKind::Amqp => "# Publishes each payment once",
    });
    add(", however often it was delivered or published.\n");
    add(
        "# `semel config reference` prints every setting; `semel config show` has what applies here.\n\n",
    );
    if level >= Level::Advanced {
        add(ADVANCED_FILE);
    }
    add(&of_store(store));
    add(&window(choice));
    add("\n[pipelines.payments]\n");
    add(match source {
        SourceKind::File => "source = { kind = \"file\", path = \"payments.ndjson\" }\n",
        SourceKind::Stdin => "source = { kind = \"stdin\" }   # semel run < payments.ndjson\n",
        SourceKind::Nats => broker::NATS_SOURCE,
        SourceKind::Kafka => broker::KAFKA_SOURCE,
        SourceKind::Amqp => broker::AMQP_SOURCE,
        SourceKind::Webhook => WEBHOOK_SOURCE,
    });
    add(match level {
        Level::Beginner => KEY,
        Level::Intermediate | Level::Advanced => KEY_PER_TENANT,
    });
    add(IDENTITY);
    if level >= Level::Intermediate {
        add(BIRTH);
        add(RETRY);
    }
    if level >= Level::Advanced {
        add(ADVANCED_PIPELINE);
        add(match effect {
            EffectKind::Http
            | EffectKind::Jsonl
            | EffectKind::Nats
            | EffectKind::Kafka
            | EffectKind::Amqp => "concurrency = 32\n",
            EffectKind::Exec => "concurrency = 4\n",
            EffectKind::Sql | EffectKind::File | EffectKind::Stdout => "concurrency = 1\n",
        });
    }
    add("\n[pipelines.payments.effect]\n");
    add(match effect {
        EffectKind::Sql => SQL,
        EffectKind::File => FILE,
        EffectKind::Http => HTTP,
        EffectKind::Exec => EXEC,
        EffectKind::Jsonl => JSONL,
        EffectKind::Stdout => STDOUT,
        EffectKind::Nats => broker::NATS_EFFECT,
        EffectKind::Kafka if source == SourceKind::Kafka => broker::STREAMED_EFFECT,
        EffectKind::Kafka => broker::KAFKA_EFFECT,
        EffectKind::Amqp => broker::AMQP_EFFECT,
    });
    let is_call = matches!(
        effect,
        EffectKind::Http | EffectKind::Exec | EffectKind::Jsonl
    );
    if is_call {
        add(match level {
            Level::Beginner => "provider_window = \"1d\"   # how long it remembers a key\n",
            Level::Intermediate | Level::Advanced => {
                "provider_window = \"7d\"   # how long it remembers a key\n"
            }
        });
    }
    if is_call && level >= Level::Advanced {
        add("timeout = \"10s\"          # one call; the lease should be longer\n");
    }
    text
}

/// The table of a store.
pub(super) fn of_store(store: StoreKind) -> String {
    let comment = match store {
        StoreKind::Embedded => EMBEDDED,
        StoreKind::Sqlite => SQLITE,
        StoreKind::Postgres => POSTGRES,
        StoreKind::Mysql => MYSQL,
        StoreKind::Redis => REDIS,
    };
    let secret = match store {
        StoreKind::Postgres | StoreKind::Mysql | StoreKind::Redis => SECRET,
        StoreKind::Embedded | StoreKind::Sqlite => "",
    };
    format!("[store]\n{comment}url = \"{}\"\n{secret}", store.url())
}

/// The deduplication window: longer than the source can bring a message back.
fn window(choice: Choice) -> String {
    let Choice { source, level, .. } = choice;
    let duration = match source {
        SourceKind::File | SourceKind::Stdin if level == Level::Beginner => "1d",
        SourceKind::File
        | SourceKind::Stdin
        | SourceKind::Nats
        | SourceKind::Amqp
        | SourceKind::Webhook => "7d",
        SourceKind::Kafka => "15d",
    };
    let mut text = String::from("\n[window]\n");
    text.push_str(match source {
        SourceKind::File | SourceKind::Stdin if level == Level::Beginner => BEGINNER_WINDOW,
        SourceKind::File | SourceKind::Stdin => WINDOW,
        SourceKind::Nats => broker::NATS_WINDOW,
        SourceKind::Kafka => broker::KAFKA_WINDOW,
        SourceKind::Amqp => broker::AMQP_WINDOW,
        SourceKind::Webhook => WEBHOOK_WINDOW,
    });
    text.push_str("duration = \"");
    text.push_str(duration);
    text.push_str("\"\n");
    if level >= Level::Advanced {
        text.push_str(MARGIN);
    }
    text
}

const BEGINNER_WINDOW: &str = "\
# How long a finished key is remembered. It should outlast every way in which a message can come again.
";

const WINDOW: &str = "\
# How long a finished key is remembered. It should outlast every way in which a message can come
# again: the broker's redeliveries, the retries of producers, replays by hand.
";

const WEBHOOK_WINDOW: &str = "\
# How long a finished key is remembered. It has to be longer than the provider sends a message again, which
# `retention` says below.
";

const WEBHOOK_SOURCE: &str = "\
# Nobody signs the sample, so the address is one of this machine. For a provider, set `verify` and `secret_file`:
# { …, verify = \"github\", secret_file = \"secrets/github\" }; GitHub and others have a `retention` of their own.
source = { kind = \"webhook\", listen = \"127.0.0.1:8282\", path = \"/payments\", verify = \"none\", retention = \"3d\" }
";

const MARGIN: &str = "\
# How far inside the window the age gate closes, for clocks that differ.
margin = \"1m\"
";

const ADVANCED_FILE: &str = "\
# How long running effects may take after SIGTERM before they are broken off.
shutdown = \"30s\"

";

const EMBEDDED: &str = "\
# A folder of its own, for one process; no server. It survives kill -9 and a power cut.
";

const SQLITE: &str = "\
# A database file, for several processes of one machine. It survives kill -9 and a power cut.
";

const POSTGRES: &str = "\
# PostgreSQL, for any number of workers on any number of machines. The tables are in a schema of their
# own, `?schema=semel` unless the URL says otherwise; the first run makes it.
";

const MYSQL: &str = "\
# MySQL or MariaDB, for any number of workers on any number of machines. The first run makes the tables.
";

const REDIS: &str = "\
# Redis, for any number of workers on any number of machines. What it survives is in its own settings:
# `semel check` reads them and says whether they will do.
";

const SECRET: &str = "\
# With a password, put the whole URL into a file that nobody else may read, and name that instead:
# url_file = \"store-url\"
# The variable SEMEL__STORE__URL stands over both.
";

const KEY: &str = "
# What makes two messages the same payment: the intent that the business knows, not the event.
key = \"json:/payment\"
";

const KEY_PER_TENANT: &str = "
# What makes two messages the same payment: the intent that the business knows, not the event.
key = \"json:/payment\"
# Each tenant numbers its own payments, so a payment of one is never taken for that of another.
tenant = \"json:/tenant\"
";

const IDENTITY: &str = "
# What tells a redelivery (the same event again) from a republish (the same intent, a new event).
transport = \"json:/event\"

# What must agree when a key comes again. Another amount under a known key is a conflict: kept in
# quarantine, not charged.
fingerprint = [\"json:/amount\", \"json:/currency\"]
";

const BIRTH: &str = "
# When the message was born. One that is older than the window and has no record is set aside,
# since nobody knows any more whether it was charged. The sample is too old a week from now.
birth = \"json:/created_at\"
";

const RETRY: &str = "
# Ten calls at most, with growing waits between them; what fails then is a dead letter.
retry = { attempts = 10, backoff = \"200ms..1m\" }
";

const ADVANCED_PIPELINE: &str = "
# Who answers for it, and the page that says what to do when it fails: for alerts, and for
# `semel check --production`.
# owner = \"team-payments\"
# runbook = \"https://wiki.example/payments\"

# How long a claim lasts unless it is renewed, which happens at a third of it. A worker that dies
# blocks its keys for as long.
lease = \"30s\"

# A longer message is quarantined, and only its beginning kept.
max_message = \"1MiB\"

# Back-pressure: most messages in one call of the store, most calls of the effect in flight.
batch = 1000
";

const SQL: &str = "\
# Runs in the same transaction as the record, so that both are there or neither. setup.sql makes the
# table. A placeholder :name is the member of that name.
kind = \"sql\"
statement = \"insert into charges (payment, amount, currency) values (:payment, :amount, :currency)\"
";

const FILE: &str = "\
# The record keeps the length of the file, so that what was written and not recorded is cut off.
kind = \"file\"
path = \"charged.ndjson\"
";

const HTTP: &str = "\
# server.py stands for your provider. Each request has the header Idempotency-Key, the same on every
# attempt; with class \"keyed\" you declare that the provider honours it.
kind = \"http\"
url = \"http://127.0.0.1:9000/charge\"
class = \"keyed\"
";

const EXEC: &str = "\
# A process for each message. With class \"keyed\" you declare that it honours SEMEL_IDEMPOTENCY_KEY.
kind = \"exec\"
command = [\"sh\", \"handler.sh\"]
class = \"keyed\"
";

const JSONL: &str = "\
# One process for all messages. With class \"keyed\" you declare that it honours idempotency_key.
kind = \"exec\"
protocol = \"jsonl\"
command = [\"python3\", \"handler.py\"]
class = \"keyed\"
";

const STDOUT: &str = "\
# Nobody can tell whether a line was read. After a crash, \"repeat\" prints the last lines again, and
# \"park\" leaves them out and lists them as in doubt.
kind = \"stdout\"
on_doubt = \"repeat\"
";
