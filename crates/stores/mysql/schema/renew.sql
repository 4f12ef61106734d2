-- Extends what is the claimant's own and not gated. ? lease, twice; ids, ids with their claims.
UPDATE semel_records FORCE INDEX (PRIMARY)
SET revision = revision + 1, at = @semel.now + ?, due = IF(state = 1 AND recovery = -2, @semel.now + ?, NULL)
WHERE id IN (?) AND CONCAT(id, claim) IN (?) AND state IN (0, 1) AND entity IS NULL
