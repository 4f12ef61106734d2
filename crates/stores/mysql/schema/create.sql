-- Format 2 of the MySQL store. Normative description: docs/spec/mysql.md.
-- The same database may hold its users' own tables; ours begin with the prefix, which is semel_ here.
-- Engine and collations are stated, never inherited: other engines have no transactions, other
-- collations take different texts for one. Times are milliseconds since 1970, durations seconds.

-- One row per setting or lock of the store itself. `format` comes last and says that all is made.
CREATE TABLE IF NOT EXISTS semel_meta (
    name   VARBINARY(32)   NOT NULL,
    number BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Fencing tokens in blocks of 1024. A row is one block; `used` of its tokens were given out.
CREATE TABLE IF NOT EXISTS semel_tokens (
    block BIGINT UNSIGNED   NOT NULL AUTO_INCREMENT,
    used  SMALLINT UNSIGNED NOT NULL,
    PRIMARY KEY (block)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What is remembered of one operation.
CREATE TABLE IF NOT EXISTS semel_records (
    id          BINARY(32)       NOT NULL, -- operation id
    revision    BIGINT UNSIGNED  NOT NULL, -- begins at the first token << 20, rises with every write
    state       TINYINT UNSIGNED NOT NULL, -- 0 claimed, 1 started, 2 released, 3 completed, 4 dead, 5 in doubt
    at          BIGINT UNSIGNED  NOT NULL, -- lease_until, not_before, since or at, by state
    due         BIGINT UNSIGNED,           -- when a sweep has something to do here
    kept        DECIMAL(29,9),             -- window; completed and dead
    margin      DECIMAL(29,9),             -- of the window, where it is not the usual one
    recovery    DECIMAL(29,9),             -- started: -1 rerun, -2 park, else rerun within
    claim       BINARY(16)       NOT NULL,
    token       BIGINT UNSIGNED  NOT NULL,
    attempts    INT UNSIGNED     NOT NULL,
    vanished    INT UNSIGNED     NOT NULL DEFAULT 0,
    repeats     INT UNSIGNED     NOT NULL DEFAULT 0,
    doubt       DECIMAL(29,9),             -- as recovery
    created_at  BIGINT UNSIGNED  NOT NULL,
    claimed_at  BIGINT UNSIGNED,           -- when the latest claim was granted, where it is not the first
    started_at  BIGINT UNSIGNED,
    version     BIGINT UNSIGNED,
    held        TINYINT UNSIGNED NOT NULL DEFAULT 0,
    codec       INT,                       -- of the outcome; -1: too large, only length and digest are kept
    tenant      VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- for people, as the next two
    operation   VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `key`       VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    fingerprint BINARY(20),
    transport   MEDIUMBLOB,
    entity      VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    error       MEDIUMTEXT    CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    past        MEDIUMBLOB,                -- attempts that ended without completing; NULL is none
    members     VARBINARY(255),            -- short hashes of what the fingerprint is of
    outcome     LONGBLOB,
    PRIMARY KEY (id),
    KEY state (state, due) -- what a sweep has to do, and short lists of a long table
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The version gate. It has no window.
CREATE TABLE IF NOT EXISTS semel_entities (
    id           BINARY(32) NOT NULL, -- as an operation id, of the entity
    applied      BIGINT UNSIGNED,
    holder       BINARY(16),
    holder_until BIGINT UNSIGNED,
    tenant       VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- for people, as the next two
    operation    VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    entity       VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Messages that were set aside, whole.
CREATE TABLE IF NOT EXISTS semel_parked (
    seq         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    id          BINARY(16)      NOT NULL,
    since       BIGINT UNSIGNED NOT NULL,
    tenant      VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    operation   VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `key`       VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    reason      VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    detail      MEDIUMTEXT    CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    transport   MEDIUMBLOB,
    coordinates MEDIUMTEXT    CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    headers     LONGBLOB,             -- lengths and bytes of names and values; NULL is none
    payload     LONGBLOB        NOT NULL,
    PRIMARY KEY (seq),
    UNIQUE KEY id (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Who ordered what about which key, when and why. It has no window.
CREATE TABLE IF NOT EXISTS semel_audit (
    seq       BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    at        BIGINT UNSIGNED NOT NULL,
    who       MEDIUMTEXT    CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    reason    MEDIUMTEXT    CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    action    VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    tenant    VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    operation VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    `key`     VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    was       MEDIUMTEXT    CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- how things stood before
    became    MEDIUMTEXT    CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (seq),
    KEY at (at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Named numbers that are written together with settlements. Bytes, since names differ by every one.
CREATE TABLE IF NOT EXISTS semel_marks (
    name  VARBINARY(3072) NOT NULL,
    value BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
