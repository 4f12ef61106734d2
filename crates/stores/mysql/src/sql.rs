//! The query texts, each in a file of its own under `schema/`, for the tables of a store's own prefix.

use std::sync::LazyLock;

macro_rules! texts {
    ($(#[$doc:meta])* $texts:ident in $folder:literal: $($name:ident,)+) => {
        $(#[$doc])*
        pub(crate) struct $texts {
            $(pub(crate) $name: Text,)+
        }

        impl $texts {
            /// Returns the statements for tables that begin with `prefix`.
            pub(crate) fn with_prefix(prefix: &str) -> Self {
                Self {
                    $($name: Text::new(
                        include_str!(concat!("../schema/", $folder, stringify!($name), ".sql")),
                        prefix,
                    ),)+
                }
            }
        }
    };
}

texts! {
    /// Every statement of a store.
    Texts in "":
    abandoned,
    audit_add,
    audit_at,
    audit_list,
    audit_list_end,
    begin,
    claim,
    claim_one,
    columns,
    commit,
    complete,
    completed,
    create,
    delete,
    drawn,
    due,
    encrypted,
    engines,
    entity_export,
    entity_insert,
    entity_insert_new,
    entity_lock,
    entity_update,
    estimate,
    export,
    floor,
    format,
    in_time,
    increment,
    insert,
    list,
    list_end,
    lock,
    lock_name,
    made,
    mark_add,
    mark_export,
    mark_get,
    mark_set,
    message_begin,
    message_undo,
    meta_get,
    meta_lock,
    migrate_2,
    migrated_2,
    now,
    outbox_audit,
    others,
    park,
    parked_drop,
    parked_list,
    parked_list_end,
    parked_lock,
    prepare,
    probe,
    read,
    renew,
    renewed,
    rights,
    rollback,
    server,
    session,
    settings,
    size,
    stats,
    sweep,
    tables,
    take_back,
    time,
    token_above,
    token_draw,
    token_last,
    token_none,
    token_set,
    token_trim,
    unlock_name,
    update,
}

texts! {
    /// Every statement of an outbox.
    OutboxTexts in "outbox/":
    adopt,
    backlog,
    beat,
    create,
    dead,
    dead_keyed,
    dead_lock,
    dead_whole,
    drop,
    forget,
    format,
    give,
    has_trigger,
    held,
    hold,
    holders,
    id,
    insert,
    kept,
    last,
    leave,
    made,
    parts,
    pending,
    processes,
    put_off,
    read,
    relay,
    renew,
    sent,
    streams,
    trigger,
    try_again,
}

texts! {
    /// Every statement of the journal of producers.
    ProducerTexts in "producers/":
    advance,
    append,
    confirm,
    create,
    forget,
    format,
    freeze,
    input,
    list,
    lock,
    made,
    note,
    open,
    own,
    pending,
    producer,
    release,
    stream,
    stream_open,
    thaw,
    trim,
}

texts! {
    /// Every statement of the journal of messages that others send.
    IngestTexts in "ingest/":
    adopt,
    advance,
    append,
    create,
    digest,
    done,
    forget,
    format,
    freeze,
    hold,
    list,
    lock,
    made,
    make,
    note,
    own,
    page,
    pending,
    producer,
    release,
    settle,
    silent,
    stream,
    take,
    thaw,
    trim,
}

/// The statements of an outbox, whose tables have bare names whatever the prefix of a store.
pub(crate) static OUTBOX: LazyLock<OutboxTexts> =
    LazyLock::new(|| OutboxTexts::with_prefix("semel_"));

/// A text of one or several statements, cut at its placeholders.
pub(crate) struct Text {
    pub(crate) parts: Box<[Box<str>]>,
    /// Number of its statements, each with a result of its own.
    pub(crate) statements: usize,
}

impl Text {
    fn new(text: &str, prefix: &str) -> Self {
        let lines = text.lines().map(|line| match line.split_once("-- ") {
            Some((code, _)) => code.trim_end(),
            None => line,
        });
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        let text = lines.join("\n").replace("semel_", prefix);
        Self {
            // The statements of a trigger are its own.
            statements: if text.starts_with("CREATE TRIGGER") {
                1
            } else {
                text.matches(";\n").count() + 1
            },
            parts: text.split('?').map(Into::into).collect(),
        }
    }
}

/// The names of our tables without their prefix.
pub(crate) const TABLES: [&str; 7] = [
    "meta", "tokens", "records", "entities", "parked", "audit", "marks",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_for_the_tables_of_its_prefix_and_without_its_comments() {
        let texts = Texts::with_prefix("dedup_");
        assert_eq!(texts.delete.parts.len(), 3);
        assert_eq!(
            &*texts.delete.parts[0],
            "DELETE FROM dedup_records WHERE id = "
        );
        assert!(
            texts.now.parts[0].starts_with("SET @semel.now"),
            "variables keep their names"
        );
        assert!(texts.claim.parts[0].starts_with("INSERT INTO dedup_records"));
        assert_eq!((texts.now.statements, texts.stats.statements), (1, 5));
        assert_eq!(texts.session.statements, 3);
        let outbox = &OUTBOX;
        assert_eq!(outbox.trigger.statements, 1);
        assert_eq!(outbox.create.statements, 6);
    }

    #[test]
    fn every_table_of_an_outbox_is_in_the_engine_and_the_collation_that_are_needed() {
        for statement in OUTBOX.create.parts[0].split(";\n") {
            assert!(
                statement.starts_with("CREATE TABLE IF NOT EXISTS semel_outbox"),
                "{statement}"
            );
            assert!(statement.contains("ENGINE=InnoDB") && statement.ends_with("utf8mb4_bin"));
        }
    }

    #[test]
    fn every_table_of_a_journal_is_in_the_engine_that_is_needed() {
        let texts = ProducerTexts::with_prefix("dedup_");
        for statement in texts.create.parts[0].split(";\n") {
            let begins = "CREATE TABLE IF NOT EXISTS dedup_producer";
            assert!(statement.starts_with(begins), "{statement}");
            assert!(statement.contains("ENGINE=InnoDB") && statement.ends_with("utf8mb4_bin"));
        }
        assert_eq!((texts.own.statements, texts.note.statements), (2, 2));
        let texts = IngestTexts::with_prefix("dedup_");
        for statement in texts.create.parts[0].split(";\n") {
            let begins = "CREATE TABLE IF NOT EXISTS dedup_ingest_";
            assert!(statement.starts_with(begins), "{statement}");
            assert!(statement.contains("ENGINE=InnoDB") && statement.ends_with("utf8mb4_bin"));
        }
        assert_eq!((texts.own.statements, texts.forget.statements), (3, 6));
        assert_eq!((texts.lock.statements, texts.hold.statements), (3, 2));
    }

    #[test]
    fn every_table_is_made_in_the_engine_and_the_collation_that_are_needed() {
        let texts = Texts::with_prefix("semel_");
        let made: Vec<_> = texts.create.parts[0].split(";\n").collect();
        assert_eq!((made.len(), texts.create.parts.len()), (TABLES.len(), 1));
        for (statement, table) in made.iter().zip(TABLES) {
            let begins = format!("CREATE TABLE IF NOT EXISTS semel_{table} (");
            assert!(statement.starts_with(&begins), "{statement}");
            assert!(statement.contains("ENGINE=InnoDB") && statement.ends_with("utf8mb4_bin"));
        }
    }
}
