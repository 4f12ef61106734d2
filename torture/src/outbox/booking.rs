//! The pipeline of a consumer that books orders.

/// The tables of a pipeline of this name, which books by `effect` what it reads from `source`, the lines of their
/// tables.
pub(crate) fn booking(name: &str, key: &str, effect: &str, source: &str) -> String {
    PIPELINE
        .replace("NAME", name)
        .replace("KEY", key)
        .replace("EFFECT", effect)
        .replace("SOURCE", source)
}

/// The lines of an effect that books into a table of the store.
pub(crate) fn rows(table: &str) -> String {
    ROWS.replace("INTO", table)
}

/// The same pipeline, which books the orders of an account one after the other.
pub(crate) fn in_order(pipeline: &str) -> String {
    pipeline.replacen("window = ", "order = \"json:/account\"\nwindow = ", 1)
}

const PIPELINE: &str = r#"
[pipelines.NAME]
key = "KEY"
window = "30d"
lease = "2s"
batch = 200
retry = { attempts = 50, backoff = "5ms..20ms", crashes = 1000 }

[pipelines.NAME.effect]
EFFECT

[pipelines.NAME.source]
SOURCE
"#;

const ROWS: &str = r#"kind = "sql"
statement = "insert into INTO (label, account, amount) values (:label, :account, :amount)"
"#;
