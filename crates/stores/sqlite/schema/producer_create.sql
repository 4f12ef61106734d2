-- Format 1 of the journal of producers. Normative description: docs/spec/producers.md.
-- Times are milliseconds since 1970.

CREATE TABLE semel_producer_format (format INTEGER NOT NULL);

CREATE TABLE semel_producers (
    producer TEXT    PRIMARY KEY,
    id       TEXT    NOT NULL,           -- the same for ever
    epoch    INTEGER NOT NULL,           -- of the latest opening, which fences all earlier ones
    frozen   INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE semel_producer_streams (
    producer  TEXT    NOT NULL,
    stream    TEXT    NOT NULL,
    target    TEXT    NOT NULL,           -- where it is published to, without secrets
    next      INTEGER NOT NULL DEFAULT 1, -- the sequence of the next message
    confirmed INTEGER NOT NULL DEFAULT 0, -- up to here, all messages are with the broker
    released  INTEGER NOT NULL DEFAULT 0, -- up to here, messages may be sent although the producer is frozen
    PRIMARY KEY (producer, stream)
) WITHOUT ROWID;

-- Messages that are not confirmed, many in a row.
CREATE TABLE semel_producer_batches (
    producer TEXT    NOT NULL,
    stream   TEXT    NOT NULL,
    first    INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    UNIQUE (producer, stream, first)
);

-- How far inputs were read, by the hash of their content.
CREATE TABLE semel_producer_inputs (
    place    INTEGER PRIMARY KEY,
    producer TEXT    NOT NULL,
    stream   TEXT    NOT NULL,
    digest   BLOB    NOT NULL,
    read     INTEGER NOT NULL, -- rows
    bytes    INTEGER NOT NULL,
    whole    INTEGER NOT NULL,
    UNIQUE (producer, stream, digest)
);

INSERT INTO semel_producer_format VALUES (1);
