-- Completes what is the reporter's own and not gated. ? kept, margin, codec, outcome, milliseconds of the
-- window, ids, ids with their claims.
UPDATE semel_records FORCE INDEX (PRIMARY)
SET revision = revision + 1, state = 3, at = @semel.now, kept = ?, margin = ?, recovery = NULL, doubt = NULL,
error = NULL, codec = ?, outcome = ?, due = IF(held, NULL, @semel.now + ?)
WHERE id IN (?) AND CONCAT(id, claim) IN (?) AND state IN (0, 1, 5) AND entity IS NULL
