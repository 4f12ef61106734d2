//! The pipeline of a consumer that books the orders of a topic.

/// The tables of a pipeline of this name, which books into `table` what it reads from `source`, the lines of its table.
pub(super) fn booking(name: &str, key: &str, table: &str, source: &str) -> String {
    PIPELINE
        .replace("NAME", name)
        .replace("KEY", key)
        .replace("INTO", table)
        .replace("SOURCE", source)
}

const PIPELINE: &str = r#"
[pipelines.NAME]
key = "KEY"
window = "30d"
lease = "2s"
batch = 200
retry = { attempts = 50, backoff = "5ms..20ms", crashes = 1000 }

[pipelines.NAME.effect]
kind = "sql"
statement = "insert into INTO (label, account, amount) values (:label, :account, :amount)"

[pipelines.NAME.source]
SOURCE
"#;
