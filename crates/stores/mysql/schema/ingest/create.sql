-- Format 1 of the journal of messages that others send. Normative description: docs/spec/producers.md.
-- Ours begin with the prefix of the store, which is semel_ here. Names are bytes, so that no collation takes two for
-- one. Times are milliseconds since 1970.

-- Its one row comes last and says that all is made.
CREATE TABLE IF NOT EXISTS semel_ingest_format (
    one    TINYINT UNSIGNED NOT NULL,
    format BIGINT           NOT NULL,
    PRIMARY KEY (one)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS semel_ingest_producers (
    producer VARBINARY(97)    NOT NULL,
    epoch    BIGINT           NOT NULL, -- the highest of which a message was taken, which fences all earlier ones
    frozen   TINYINT UNSIGNED NOT NULL DEFAULT 0,
    PRIMARY KEY (producer)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS semel_ingest_streams (
    producer  VARBINARY(97)   NOT NULL,
    stream    VARBINARY(1000) NOT NULL,
    begun     BIGINT          NOT NULL, -- this life of the stream, told from one that was forgotten: when it was begun
    next      BIGINT          NOT NULL, -- the sequence of the next message
    confirmed BIGINT          NOT NULL, -- up to here, the effects of all messages are settled
    released  BIGINT          NOT NULL, -- up to here, messages may run although the producer is frozen
    heard     BIGINT          NOT NULL, -- when a message came last, or was settled, by the server's clock
    PRIMARY KEY (producer, stream)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Messages that are not settled, many in a row.
CREATE TABLE IF NOT EXISTS semel_ingest_batches (
    producer VARBINARY(97)   NOT NULL,
    stream   VARBINARY(1000) NOT NULL,
    last     BIGINT          NOT NULL,
    first    BIGINT          NOT NULL,
    at       BIGINT          NOT NULL,
    size     BIGINT          NOT NULL, -- bytes of the body, which are not read to count them
    body     LONGBLOB        NOT NULL,
    PRIMARY KEY (producer, stream, last)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What nobody numbers and came under a key, by the hash of key and content. The last one has the last place.
CREATE TABLE IF NOT EXISTS semel_ingest_digests (
    producer VARBINARY(97)   NOT NULL,
    stream   VARBINARY(1000) NOT NULL,
    digest   BINARY(32)      NOT NULL,
    place    BIGINT          NOT NULL,
    PRIMARY KEY (producer, stream, digest),
    KEY place (producer, stream, place)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
