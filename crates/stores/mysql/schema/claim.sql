-- Inserts what is absent. ? rows. What is there stays as it is, and is locked until the commit.
INSERT INTO semel_records (id, revision, state, at, due, recovery, claim, token, attempts, created_at,
started_at, tenant, operation, `key`, fingerprint, transport, members)
VALUES ?
ON DUPLICATE KEY UPDATE id = semel_records.id
