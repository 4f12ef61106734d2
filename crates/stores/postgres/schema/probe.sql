-- Waits for whoever is inserting one of these ids, and tells which are absent all the same: what is
-- inserted here is removed again in the same transaction.
INSERT INTO semel.records (id, state, at, claim, token, attempts, created_at, scope, key, revision)
SELECT id, 2, 0, '', 0, 0, 0, 0, '', 0 FROM unnest($1::bytea[]) AS asked (id)
ORDER BY id
ON CONFLICT (id) DO NOTHING
RETURNING id
