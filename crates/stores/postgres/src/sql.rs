//! The query texts, each in a file of its own under `schema/`, for a store's own schema.

use deadpool_postgres::tokio_postgres::types::Type;

macro_rules! texts {
    ($($(#[doc = $about:literal])* $name:ident = $file:literal,)+) => {
        /// Every statement of a store.
        #[derive(Clone, Debug)]
        pub(crate) struct Texts {
            $($(#[doc = $about])* pub(crate) $name: Text,)+
        }

        impl Texts {
            /// Returns the statements of the store in `schema`.
            pub(crate) fn in_schema(schema: &str) -> Self {
                Self {
                    $($name: Text::new(include_str!(concat!("../schema/", $file, ".sql")), schema),)+
                }
            }
        }
    };
}

texts! {
    create = "create",
    format = "format",
    now = "now",
    claim = "claim",
    claim_new = "claim_new",
    complete = "complete",
    renew = "renew",
    read = "read",
    lock = "lock",
    insert = "insert",
    update = "update",
    delete = "delete",
    scope = "scope",
    entity_lock = "entity_lock",
    entity_insert = "entity_insert",
    entity_update = "entity_update",
    audit_add = "audit_add",
    audit_list = "audit_list",
    list = "list",
    list_open = "list_open",
    list_repeated = "list_repeated",
    sweep = "sweep",
    vanished = "vanished",
    abandoned = "abandoned",
    stats = "stats",
    size = "size",
    estimate = "estimate",
    estimate_listed = "estimate_listed",
    estimate_size = "estimate_size",
    park = "park",
    parked_list = "parked_list",
    parked_drop = "parked_drop",
    mark_get = "mark_get",
    mark_set = "mark_set",
    migrate_2 = "migrate_2",
    scope_find = "scope_find",
    preflight = "preflight",
    probe = "probe",
    unprobe = "unprobe",
    token = "token",
    token_lock = "token_lock",
    token_raise = "token_raise",
    record_export = "record_export",
    record_forget = "record_forget",
    entity_export = "entity_export",
    mark_export = "mark_export",
    mark_add = "mark_add",
    audit_find = "audit_find",
    outbox_create = "outbox_create",
    outbox_format = "outbox_format",
    outbox_room = "outbox_room",
    outbox_relay = "outbox_relay",
    outbox_adopt = "outbox_adopt",
    outbox_beat = "outbox_beat",
    outbox_processes = "outbox_processes",
    outbox_holders = "outbox_holders",
    outbox_hold = "outbox_hold",
    outbox_renew = "outbox_renew",
    outbox_give = "outbox_give",
    outbox_leave = "outbox_leave",
    outbox_lock = "outbox_lock",
    outbox_pending = "outbox_pending",
    outbox_sent = "outbox_sent",
    outbox_kept = "outbox_kept",
    outbox_put_off = "outbox_put_off",
    outbox_streams = "outbox_streams",
    outbox_forget = "outbox_forget",
    outbox_dead = "outbox_dead",
    outbox_dead_keyed = "outbox_dead_keyed",
    outbox_dead_whole = "outbox_dead_whole",
    outbox_try_again = "outbox_try_again",
    outbox_drop = "outbox_drop",
    outbox_audit = "outbox_audit",
    outbox_backlog = "outbox_backlog",
    ingest_accepted = "ingest_accepted",
    ingest_append = "ingest_append",
    ingest_create = "ingest_create",
    ingest_forget = "ingest_forget",
    ingest_forget_producers = "ingest_forget_producers",
    ingest_format = "ingest_format",
    ingest_freeze = "ingest_freeze",
    ingest_leave = "ingest_leave",
    ingest_list = "ingest_list",
    ingest_lock = "ingest_lock",
    ingest_page = "ingest_page",
    ingest_release = "ingest_release",
    ingest_settle = "ingest_settle",
    ingest_silent = "ingest_silent",
    ingest_state = "ingest_state",
    ingest_take = "ingest_take",
    ingest_thaw = "ingest_thaw",
    journal_lock = "journal_lock",
    journal_room = "journal_room",
    producer_append = "producer_append",
    producer_confirm = "producer_confirm",
    producer_create = "producer_create",
    producer_elsewhere = "producer_elsewhere",
    producer_format = "producer_format",
    producer_freeze = "producer_freeze",
    producer_input = "producer_input",
    producer_list = "producer_list",
    producer_open = "producer_open",
    producer_pending = "producer_pending",
    producer_release = "producer_release",
    producer_stream_open = "producer_stream_open",
    producer_thaw = "producer_thaw",
}

impl Texts {
    /// Returns the statement that writes a message into the outbox, which is in no schema of a store's.
    pub(crate) fn outbox_insert_alone() -> Text {
        Text::new(include_str!("../schema/outbox_insert.sql"), "semel")
    }
}

/// A statement and the types of its parameters, each of which is cast where it is first named.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) sql: Box<str>,
    pub(crate) types: Box<[Type]>,
}

impl Text {
    fn new(text: &str, schema: &str) -> Self {
        let mut sql = text.replace("semel.", &format!("{}.", quoted(schema)));
        if semel_core::planted("M28") {
            sql = sql.replace("clock_timestamp()", "now()");
        }
        Self {
            types: types_of(&sql).into(),
            sql: sql.into(),
        }
    }
}

/// Quotes an identifier as it stands in a statement.
pub(crate) fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

/// Returns the types that `$1::…`, `$2::…` are cast to.
fn types_of(sql: &str) -> Vec<Type> {
    let cast = |number: usize| {
        let (_, rest) = sql.split_once(&format!("${number}::"))?;
        let end =
            rest.find(|letter: char| !letter.is_ascii_alphanumeric() && !"[]".contains(letter));
        TYPES
            .iter()
            .find(|(name, _)| *name == &rest[..end.unwrap_or(rest.len())])
            .map(|(_, r#type)| r#type.clone())
    };
    (1..).map_while(cast).collect()
}

const TYPES: &[(&str, Type)] = &[
    ("bigint", Type::INT8),
    ("boolean", Type::BOOL),
    ("bytea", Type::BYTEA),
    ("integer", Type::INT4),
    ("text", Type::TEXT),
    ("bigint[]", Type::INT8_ARRAY),
    ("boolean[]", Type::BOOL_ARRAY),
    ("bytea[]", Type::BYTEA_ARRAY),
    ("integer[]", Type::INT4_ARRAY),
    ("smallint[]", Type::INT2_ARRAY),
    ("text[]", Type::TEXT_ARRAY),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_names_its_schema_and_the_types_of_its_parameters() {
        let texts = Texts::in_schema("odd\"one");
        assert!(texts.lock.sql.contains("FROM \"odd\"\"one\".records"));
        assert_eq!(*texts.lock.types, [Type::BOOL, Type::BYTEA_ARRAY]);
        assert_eq!(texts.update.types.len(), 27);
        assert_eq!(texts.insert.types.len(), 29);
        assert_eq!(texts.claim.types.len(), 14);
        assert_eq!(texts.claim_new.types, texts.claim.types);
    }
}
