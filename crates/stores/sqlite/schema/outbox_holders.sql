-- Who holds each partition: 0 this process, 1 nobody, 2 another. ?1 stream, ?2 process, ?3 now.
SELECT CASE WHEN holder = ?2 THEN 0 WHEN holder IS NULL OR until <= ?3 THEN 1 ELSE 2 END
FROM semel_outbox_leases WHERE stream = ?1 ORDER BY part
