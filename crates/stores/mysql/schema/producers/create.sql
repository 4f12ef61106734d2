-- Format 1 of the journal of producers. Normative description: docs/spec/producers.md.
-- Ours begin with the prefix of the store, which is semel_ here. Names are bytes, so that no collation takes two for
-- one. Times are milliseconds since 1970.

-- Its one row comes last and says that all is made.
CREATE TABLE IF NOT EXISTS semel_producer_format (
    one    TINYINT UNSIGNED NOT NULL,
    format BIGINT           NOT NULL,
    PRIMARY KEY (one)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS semel_producers (
    producer VARBINARY(80)    NOT NULL,
    id       VARBINARY(120)   NOT NULL, -- the same for ever
    epoch    BIGINT           NOT NULL, -- of the latest opening, which fences all earlier ones
    frozen   TINYINT UNSIGNED NOT NULL DEFAULT 0,
    PRIMARY KEY (producer)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS semel_producer_streams (
    producer  VARBINARY(80)   NOT NULL,
    stream    VARBINARY(1000) NOT NULL,
    target    VARBINARY(1000) NOT NULL, -- where it is published to, without secrets
    next      BIGINT          NOT NULL, -- the sequence of the next message
    confirmed BIGINT          NOT NULL, -- up to here, all messages are with the broker
    released  BIGINT          NOT NULL, -- up to here, messages may be sent although the producer is frozen
    openings  BIGINT          NOT NULL, -- of the producer since there is the stream
    PRIMARY KEY (producer, stream)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Messages that are not confirmed, many in a row.
CREATE TABLE IF NOT EXISTS semel_producer_batches (
    producer VARBINARY(80)   NOT NULL,
    stream   VARBINARY(1000) NOT NULL,
    last     BIGINT          NOT NULL,
    first    BIGINT          NOT NULL,
    at       BIGINT          NOT NULL,
    size     BIGINT          NOT NULL, -- bytes of the body, which are not read to count them
    body     LONGBLOB        NOT NULL,
    PRIMARY KEY (producer, stream, last)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- How far inputs were read, by the hash of their content. The one that is used last has the last place.
CREATE TABLE IF NOT EXISTS semel_producer_inputs (
    producer   VARBINARY(80)    NOT NULL,
    stream     VARBINARY(1000)  NOT NULL,
    digest     BINARY(32)       NOT NULL,
    place      BIGINT           NOT NULL,
    read_rows  BIGINT           NOT NULL,
    read_bytes BIGINT           NOT NULL,
    whole      TINYINT UNSIGNED NOT NULL,
    PRIMARY KEY (producer, stream, digest),
    KEY place (producer, stream, place)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
