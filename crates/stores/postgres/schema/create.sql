-- Format 2 of the PostgreSQL store. Normative description: docs/spec/postgres.md.
-- `semel` stands for the schema of the store, wherever it is followed by a dot. What is indexed is
-- compared byte by byte, so that no upgrade of a collation can damage an index.

-- One row per setting of the store itself.
CREATE TABLE semel.meta (
    name  text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

-- Fencing tokens. One number at a time: a session that kept some back would give them out of order.
CREATE SEQUENCE semel.token CACHE 1;

-- The highest token that was removed together with its record. A claim draws its token before it inserts;
-- in between, another life of the key may have come and gone.
INSERT INTO semel.meta (name, value) VALUES ('floor', 0);

-- As it is now, and not when the statement began: volatile functions look anew.
CREATE FUNCTION semel.floor() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT value FROM semel.meta WHERE name = 'floor'
$$;

-- Tenant and operation name, so that a record needs one small number for both.
CREATE TABLE semel.scopes (
    scope     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant    text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    UNIQUE (tenant, operation)
);

-- What is remembered of one operation. All times and durations are milliseconds.
CREATE TABLE semel.records (
    at          bigint   NOT NULL, -- lease_until, not_before, since or at, by state
    token       bigint   NOT NULL,
    created_at  bigint   NOT NULL,
    due         bigint,            -- when a sweep has something to do here
    kept        bigint,            -- window; completed and dead
    margin      bigint,            -- of the window, where it is not the usual one
    recovery    bigint,            -- started: -1 rerun, -2 park, else rerun within
    doubt       bigint,            -- as recovery
    started_at  bigint,
    claimed_at  bigint,            -- when the latest claim was granted, where it is not the first
    version     bigint,
    revision    bigint   NOT NULL, -- begins at the first token << 20, rises with every write
    scope       integer  NOT NULL,
    attempts    integer  NOT NULL,
    vanished    integer  NOT NULL DEFAULT 0,
    repeats     integer  NOT NULL DEFAULT 0,
    codec       integer,           -- of the outcome; -1: too large, only length and digest are kept
    state       smallint NOT NULL, -- 0 claimed, 1 started, 2 released, 3 completed, 4 dead, 5 in doubt
    held        boolean  NOT NULL DEFAULT false,
    id          bytea    PRIMARY KEY, -- operation id
    claim       bytea    NOT NULL,
    key         bytea    NOT NULL, -- UTF-8, for people; bytea, because a text has no U+0000
    fingerprint bytea,
    transport   bytea,
    entity      bytea,
    error       text,
    past        bytea,             -- attempts that ended without completing; NULL is none
    members     bytea,             -- short hashes of what the fingerprint is of
    outcome     bytea              -- out of line beyond 2 KB, as PostgreSQL does it
);

CREATE INDEX records_due ON semel.records (due) WHERE due IS NOT NULL;
-- Short lists of a long table: what is released, dead or in doubt.
CREATE INDEX records_open ON semel.records (state, id) WHERE state IN (2, 4, 5);
-- Claimed or released, by when it was last heard of: what nobody came back to.
CREATE INDEX records_quiet ON semel.records (at) WHERE state IN (0, 2);
CREATE INDEX records_repeated ON semel.records (id) WHERE repeats > 0;

-- The version gate. It has no window.
CREATE TABLE semel.entities (
    applied      bigint,
    holder_until bigint,
    scope        integer NOT NULL,
    id           bytea   PRIMARY KEY, -- as an operation id, of the entity
    entity       bytea   NOT NULL,    -- for people
    holder       bytea
);

-- Messages that were set aside, whole.
CREATE TABLE semel.parked (
    seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    since       bigint  NOT NULL,
    scope       integer NOT NULL,
    id          bytea   NOT NULL UNIQUE,
    key         bytea,
    reason      text    NOT NULL,
    detail      text    NOT NULL,
    transport   bytea,
    coordinates text    NOT NULL,
    headers     bytea,             -- lengths and bytes of names and values; NULL is none
    payload     bytea   NOT NULL
);

-- Who ordered what about which key, when and why. It has no window.
CREATE TABLE semel.audit (
    seq    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     bigint NOT NULL,
    scope  integer,
    who    text   NOT NULL,
    reason text   NOT NULL,
    action text   NOT NULL,
    key    bytea,
    was    text   NOT NULL, -- how things stood before
    became text   NOT NULL
);

CREATE INDEX audit_at ON semel.audit (at);

-- Named numbers that are written together with settlements.
CREATE TABLE semel.marks (
    name  text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

-- For people with an SQL prompt; nothing reads them.
CREATE VIEW semel.operations AS
SELECT tenant,
       operation,
       encode(key, 'escape') AS key,
       (ARRAY['claimed', 'started', 'released', 'completed', 'dead', 'in_doubt'])[state + 1] AS state,
       to_timestamp(created_at / 1000.0) AS created_at,
       to_timestamp(coalesce(claimed_at, created_at) / 1000.0) AS claimed_at,
       attempts,
       error,
       encode(id, 'hex') AS operation_id
FROM semel.records JOIN semel.scopes USING (scope);

CREATE VIEW semel.orders AS
SELECT to_timestamp(at / 1000.0) AS at,
       who,
       action,
       tenant,
       operation,
       encode(key, 'escape') AS key,
       was,
       became,
       reason
FROM semel.audit LEFT JOIN semel.scopes USING (scope)
ORDER BY seq;

INSERT INTO semel.meta (name, value) VALUES ('format', 2);
