-- Counts by state, then what of it counts as absent.
SELECT state, COUNT(*) FROM semel_records FORCE INDEX (state) GROUP BY state;
SELECT state, COUNT(*) FROM semel_records FORCE INDEX (state)
WHERE state IN (3, 4) AND due <= @semel.now
AND at + CEIL(kept * 1000) + CEIL(TRUNCATE(kept / 8, 9) * 1000) + 1000 <= @semel.now
GROUP BY state;
SELECT COUNT(*) FROM semel_parked;
SELECT COUNT(*) FROM semel_entities;
SELECT COUNT(*) FROM semel_audit
