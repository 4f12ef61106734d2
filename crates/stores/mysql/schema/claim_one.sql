-- As claim.sql, for one row (?) in a transaction of somebody else, whose settings are not ours: the age gate (?)
-- is a condition, and the token is drawn under the lock of the row.
INSERT INTO semel_records (id, revision, state, at, due, recovery, claim, token, attempts, created_at,
started_at, tenant, operation, `key`, fingerprint, transport, members, entity, version)
SELECT ? FROM DUAL WHERE ?
ON DUPLICATE KEY UPDATE id = semel_records.id
