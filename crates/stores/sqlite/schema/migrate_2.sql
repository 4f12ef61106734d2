-- From format 1 to format 2, in one transaction. The tables that this leaves are those of create.sql,
-- with the new columns at the end.
ALTER TABLE semel_records ADD COLUMN claimed_at INTEGER;
ALTER TABLE semel_records ADD COLUMN past BLOB;

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

DROP VIEW IF EXISTS semel_operations;

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

UPDATE semel_meta SET value = 2 WHERE name = 'format';
