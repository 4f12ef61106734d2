-- The times of the streams of producers that send here, beside the journal of producers: an older version neither needs nor
-- knows them. Normative description: docs/spec/producers.md. Times are milliseconds since 1970.
CREATE TABLE IF NOT EXISTS semel_producer_times (
    producer TEXT    NOT NULL,
    stream   TEXT    NOT NULL,
    begun    INTEGER NOT NULL, -- the life of the stream, told from an earlier one that was forgotten
    heard    INTEGER NOT NULL, -- when a message came last, or was settled
    next     INTEGER NOT NULL, -- that of the stream then: another one says that an older version took more
    PRIMARY KEY (producer, stream)
) WITHOUT ROWID
