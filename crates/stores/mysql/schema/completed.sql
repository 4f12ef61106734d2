-- What is completed by these claims and not near its end. ? ids, ids with their claims.
SELECT id FROM semel_records FORCE INDEX (PRIMARY)
WHERE id IN (?) AND CONCAT(id, claim) IN (?) AND state = 3 AND (due IS NULL OR due > @semel.now)
