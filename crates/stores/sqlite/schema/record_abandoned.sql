-- Claimed or released, and quiet since before ?1.
SELECT count(*) FROM semel_records INDEXED BY semel_records_open
WHERE state IN (0, 2) AND state <> 3 AND at BETWEEN 0 AND ?1
