-- Entries of these instants (?).
SELECT seq, at, who, reason, action, tenant, operation, `key`, was, became
FROM semel_audit WHERE at IN (?)
