-- Format 1 of the outbox. Normative description: docs/spec/outbox.md.
-- Everything here is understood by SQLite 3.24, since programs in any language write with the SQLite that they have.
-- Times are milliseconds since 1970.

CREATE TABLE semel_outbox_format (format INTEGER NOT NULL);

CREATE TABLE semel_outbox (
    -- 16 bytes; without one, a UUID by chance. Pieces have even lengths, since a file in UTF-16 cuts others.
    id         BLOB    NOT NULL UNIQUE CHECK (typeof(id) = 'blob' AND length(id) = 16)
               DEFAULT (CAST(randomblob(6)
                   || (substr(X'404142434445464748494A4B4C4D4E4F', 1 + (random() & 15), 1) || randomblob(1))
                   || (substr(X'808182838485868788898A8B8C8D8E8F', 1 + (random() & 15), 1) || randomblob(7)) AS BLOB)),
    stream     TEXT    NOT NULL CHECK (typeof(stream) = 'text' AND length(CAST(stream AS BLOB)) BETWEEN 1 AND 255),
    order_key  TEXT    CHECK (order_key IS NULL
                   OR (typeof(order_key) = 'text' AND length(CAST(order_key AS BLOB)) <= 1024)),
    headers    TEXT    CHECK (headers IS NULL OR typeof(headers) = 'text'), -- JSON
    payload    BLOB    NOT NULL CHECK (typeof(payload) IN ('blob', 'text')),
    created_at INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)),
    -- Where the message goes out. A file has one writer, which keeps it from its first change to its commit: places
    -- rise in order of insertion within a transaction and of commit between them.
    place      INTEGER PRIMARY KEY,
    attempts   INTEGER NOT NULL DEFAULT 0,
    due_at     INTEGER, -- not before; 9223372036854775807: dead
    dead_at    INTEGER,
    error      TEXT,
    sent_at    INTEGER  -- where published messages are kept
);

CREATE INDEX semel_outbox_pending ON semel_outbox (stream) WHERE sent_at IS NULL;
CREATE INDEX semel_outbox_blocked ON semel_outbox (stream, order_key)
    WHERE due_at IS NOT NULL AND sent_at IS NULL;
CREATE INDEX semel_outbox_sent ON semel_outbox (stream, sent_at) WHERE sent_at IS NOT NULL;

-- What relays a stream, and to where: the same for all of its processes.
CREATE TABLE semel_outbox_relays (
    stream TEXT PRIMARY KEY,
    relay  TEXT NOT NULL,
    sink   TEXT NOT NULL
) WITHOUT ROWID;

-- The processes that relay a stream now.
CREATE TABLE semel_outbox_processes (
    stream  TEXT    NOT NULL,
    process TEXT    NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (stream, process)
) WITHOUT ROWID;

-- Who publishes a partition of a stream, and until when.
CREATE TABLE semel_outbox_leases (
    stream TEXT    NOT NULL,
    part   INTEGER NOT NULL,
    holder TEXT,
    token  INTEGER NOT NULL DEFAULT 0,
    until  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (stream, part)
) WITHOUT ROWID;

INSERT INTO semel_outbox_format VALUES (1);
