-- Format 3 of the SQLite store. Normative description: docs/spec/sqlite.md.
-- The same file also holds its users' own tables, so everything here begins with semel_.

-- One row per setting of the store itself.
CREATE TABLE semel_meta (
    name  TEXT PRIMARY KEY,
    value NOT NULL
) WITHOUT ROWID;

-- Tenant and operation name, so that a record needs one small number for both.
CREATE TABLE semel_scopes (
    scope     INTEGER PRIMARY KEY,
    tenant    TEXT NOT NULL,
    operation TEXT NOT NULL,
    UNIQUE (tenant, operation)
);

-- What is remembered of one operation. Rows are appended, and only the first eight bytes of the
-- operation id are indexed: a random 32-byte primary key would touch twice the pages (decision 0020).
CREATE TABLE semel_records (
    seq         INTEGER PRIMARY KEY,
    tag         INTEGER NOT NULL, -- operation id, first 8 bytes, big-endian, as a signed number
    rest        BLOB    NOT NULL, -- operation id, other 24 bytes
    scope       INTEGER NOT NULL,
    key         TEXT    NOT NULL, -- for people
    state       INTEGER NOT NULL, -- 0 claimed, 1 started, 2 released, 3 completed, 4 dead, 5 in doubt
    at          INTEGER NOT NULL, -- lease_until, not_before, since or at, by state; milliseconds
    kept        INTEGER,          -- window in milliseconds; completed and dead
    margin      INTEGER,          -- of the window, where it is not the usual one
    recovery    INTEGER,          -- started: -1 rerun, -2 park, else rerun within milliseconds
    claim       BLOB    NOT NULL,
    token       INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    vanished    INTEGER NOT NULL,
    repeats     INTEGER NOT NULL,
    doubt       INTEGER,          -- as recovery
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    error       TEXT,
    fingerprint BLOB,
    transport   BLOB,
    entity      TEXT,
    version     INTEGER,
    held        INTEGER NOT NULL,
    due         INTEGER,          -- when a sweep has something to do here
    claimed_at  INTEGER,          -- when the latest claim was granted, where it is not the first
    past        BLOB,             -- attempts that ended without completing; NULL is none
    members     BLOB,             -- short hashes of what the fingerprint is of
    codec       INTEGER,          -- of the outcome; -1: too large, only length and digest are kept
    outcome     BLOB
);

CREATE INDEX semel_records_tag ON semel_records (tag);
CREATE INDEX semel_records_due ON semel_records (due) WHERE due IS NOT NULL;
-- What is not simply done: short lists of a long table.
CREATE INDEX semel_records_open ON semel_records (state) WHERE state <> 3;

-- The version gate. It has no window.
CREATE TABLE semel_entities (
    id           BLOB PRIMARY KEY, -- as an operation id, of the entity
    scope        INTEGER NOT NULL,
    entity       TEXT    NOT NULL, -- for people
    applied      INTEGER,
    holder       BLOB,
    holder_until INTEGER
) WITHOUT ROWID;

-- Messages that were set aside, whole.
CREATE TABLE semel_parked (
    seq         INTEGER PRIMARY KEY,
    id          BLOB    NOT NULL UNIQUE,
    scope       INTEGER NOT NULL,
    key         TEXT,
    reason      TEXT    NOT NULL,
    detail      TEXT    NOT NULL,
    transport   BLOB,
    coordinates TEXT    NOT NULL,
    since       INTEGER NOT NULL,
    headers     BLOB,             -- lengths and bytes of names and values; NULL is none
    payload     BLOB    NOT NULL
);

-- Who ordered what about which key, when and why. It has no window.
CREATE TABLE semel_audit (
    seq    INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    who    TEXT    NOT NULL,
    reason TEXT    NOT NULL,
    action TEXT    NOT NULL,
    scope  INTEGER,
    key    TEXT,
    was    TEXT    NOT NULL, -- how things stood before
    became TEXT    NOT NULL
);

CREATE INDEX semel_audit_at ON semel_audit (at);

-- Named numbers that are written together with settlements.
CREATE TABLE semel_marks (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- For people with a SQL prompt; nothing reads them.
CREATE VIEW semel_operations AS
SELECT tenant,
       operation,
       key,
       CASE state WHEN 0 THEN 'claimed' WHEN 1 THEN 'started' WHEN 2 THEN 'released'
                  WHEN 3 THEN 'completed' WHEN 4 THEN 'dead' ELSE 'in_doubt' END AS state,
       strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(claimed_at, created_at) / 1000.0, 'unixepoch')
           AS claimed_at,
       attempts,
       error,
       printf('%016x', tag) || lower(hex(rest)) AS operation_id
FROM semel_records JOIN semel_scopes USING (scope);

CREATE VIEW semel_orders AS
SELECT strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch') AS at,
       who,
       action,
       tenant,
       operation,
       key,
       was,
       became,
       reason
FROM semel_audit LEFT JOIN semel_scopes USING (scope)
ORDER BY seq;

INSERT INTO semel_meta (name, value) VALUES ('format', 3), ('store', randomblob(16)), ('token', 0);
