//! The query texts, each in a file of its own under `schema/`.

macro_rules! texts {
    ($($name:ident = $file:literal,)+) => {
        $(pub(crate) const $name: &str = include_str!(concat!("../schema/", $file, ".sql"));)+
    };
}

texts! {
    CREATE = "create",
    MIGRATE_2 = "migrate_2",
    MIGRATE_3 = "migrate_3",
    BEGIN = "begin",
    COMMIT = "commit",
    ROLLBACK = "rollback",
    MESSAGE_BEGIN = "message_begin",
    MESSAGE_UNDO = "message_undo",
    MESSAGE_END = "message_end",
    WRITE_LOCK = "write_lock",
    META_TABLES = "meta_tables",
    META_GET = "meta_get",
    TOKEN_SET = "token_set",
    SCOPE_GET = "scope_get",
    SCOPE_ADD = "scope_add",
    SCOPE_LIST = "scope_list",
    RECORD_GET = "record_get",
    RECORD_ADD = "record_add",
    RECORD_SET = "record_set",
    RECORD_DROP = "record_drop",
    RECORD_DUE = "record_due",
    RECORD_LIST = "record_list",
    RECORD_LIST_COMPLETED = "record_list_completed",
    RECORD_LIST_OPEN = "record_list_open",
    RECORD_ABANDONED = "record_abandoned",
    RECORD_COUNT = "record_count",
    RECORD_EXPORT = "record_export",
    RECORD_TAGS = "record_tags",
    ENTITY_GET = "entity_get",
    ENTITY_SET = "entity_set",
    ENTITY_ADD = "entity_add",
    ENTITY_EXPORT = "entity_export",
    PARKED_ADD = "parked_add",
    PARKED_GET = "parked_get",
    PARKED_DROP = "parked_drop",
    PARKED_LIST = "parked_list",
    PARKED_COUNT = "parked_count",
    MARK_GET = "mark_get",
    MARK_SET = "mark_set",
    MARK_ADD = "mark_add",
    MARK_EXPORT = "mark_export",
    AUDIT_ADD = "audit_add",
    AUDIT_FIND = "audit_find",
    AUDIT_LIST = "audit_list",
}
