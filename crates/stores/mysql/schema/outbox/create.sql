-- Format 1 of the outbox. Normative description: docs/spec/outbox.md.
-- All names are bare, whatever the prefix of the store: whoever connects to its database writes
-- `INSERT INTO semel_outbox`. Times are milliseconds since 1970.

-- One row with the format, which comes last and says that all is made.
CREATE TABLE IF NOT EXISTS semel_outbox_format (
    format BIGINT NOT NULL,
    PRIMARY KEY (format)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The last place that was given out among the order keys that fall into a row. Whoever inserts a message of one of them
-- has the row locked until the commit.
CREATE TABLE IF NOT EXISTS semel_outbox_places (
    slot  SMALLINT UNSIGNED NOT NULL,
    place BIGINT            NOT NULL,
    PRIMARY KEY (slot)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The messages. A writer sets `stream` and `payload`, and may set the three between them and `id`; the trigger sees to
-- the rest. Without it, nothing is taken: such a message would be in no order.
CREATE TABLE IF NOT EXISTS semel_outbox (
    id         BINARY(16)       NOT NULL DEFAULT '',
    stream     VARCHAR(255)     CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    order_key  VARCHAR(1024)    CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    headers    MEDIUMTEXT       CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    payload    LONGBLOB         NOT NULL,
    created_at BIGINT           NOT NULL DEFAULT 0,
    place      BIGINT           NOT NULL DEFAULT 0,
    part       TINYINT UNSIGNED NOT NULL DEFAULT 0,
    order_hash INT UNSIGNED,              -- of stream and order key; NULL without one
    bytes      INT UNSIGNED     NOT NULL DEFAULT 0, -- of the payload
    attempts   INT UNSIGNED     NOT NULL DEFAULT 0,
    due_at     BIGINT,                    -- not before; 9223372036854775807: dead
    dead_at    BIGINT,
    error      MEDIUMTEXT       CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    sent_at    BIGINT,                    -- where published messages are kept
    late_hash  INT UNSIGNED     AS (IF(due_at IS NULL, NULL, order_hash)) STORED, -- what may hold up its order key
    PRIMARY KEY (id),
    KEY pending (stream, sent_at, due_at, place, part),
    KEY late (late_hash),
    CONSTRAINT semel_outbox_has_its_trigger CHECK (place > 0),
    CONSTRAINT semel_outbox_stream CHECK (OCTET_LENGTH(stream) BETWEEN 1 AND 255 AND RIGHT(stream, 1) NOT LIKE ' '),
    CONSTRAINT semel_outbox_order_key CHECK (OCTET_LENGTH(order_key) <= 1024),
    CONSTRAINT semel_outbox_headers CHECK (JSON_VALID(headers))
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What relays a stream, and to where: the same for all of its processes.
CREATE TABLE IF NOT EXISTS semel_outbox_relays (
    stream VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    relay  VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    sink   MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (stream)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The processes that relay a stream now.
CREATE TABLE IF NOT EXISTS semel_outbox_processes (
    stream  VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    process VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    until   BIGINT          NOT NULL,
    batches BIGINT UNSIGNED NOT NULL DEFAULT 0, -- that it has read
    PRIMARY KEY (stream, process)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Who publishes a partition of a stream, and until when.
CREATE TABLE IF NOT EXISTS semel_outbox_leases (
    stream VARCHAR(255)     CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    part   TINYINT UNSIGNED NOT NULL,
    holder VARCHAR(255)     CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    token  BIGINT           NOT NULL DEFAULT 0,
    until  BIGINT           NOT NULL DEFAULT 0,
    PRIMARY KEY (stream, part)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
