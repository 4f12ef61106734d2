-- What has just been extended. ? lease, ids, ids with their claims.
SELECT id FROM semel_records FORCE INDEX (PRIMARY)
WHERE at = @semel.now + ? AND id IN (?) AND CONCAT(id, claim) IN (?) AND state IN (0, 1) AND entity IS NULL
