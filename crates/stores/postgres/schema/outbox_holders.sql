-- Who holds each partition: 0 this process, 1 nobody, 2 another. $1 stream, $2 process.
WITH made AS (
    INSERT INTO semel_outbox_leases (stream, part) SELECT $1::text, part FROM generate_series(0, 31) AS part
    ON CONFLICT DO NOTHING RETURNING part
)
SELECT part, CASE WHEN holder = $2::text THEN 0 WHEN holder IS NULL OR until <= clock_timestamp() THEN 1 ELSE 2 END
FROM semel_outbox_leases WHERE stream = $1
UNION ALL SELECT part, 1 FROM made
ORDER BY 1
