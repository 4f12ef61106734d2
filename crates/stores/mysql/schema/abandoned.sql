-- Claimed or released, and quiet since now less ? milliseconds, named twice.
SELECT COUNT(*) FROM semel_records FORCE INDEX (state)
WHERE state IN (0, 2) AND at <= IF(@semel.now > ?, @semel.now - ?, 0)
