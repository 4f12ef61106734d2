-- Who holds each partition: 0 this process, 1 nobody, 2 another. The rows are locked, so that none is renewed meanwhile.
-- ? process, ? stream.
SELECT CASE WHEN holder = ? THEN 0 WHEN holder IS NULL OR until <= @semel.now THEN 1 ELSE 2 END
FROM semel_outbox_leases WHERE stream = ? ORDER BY part FOR UPDATE
