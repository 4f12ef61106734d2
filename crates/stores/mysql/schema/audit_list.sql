-- One page, oldest first. ? conditions, ? at most.
SELECT seq, at, who, reason, action, tenant, operation, `key`, was, became
FROM semel_audit WHERE ? ORDER BY seq LIMIT ?
