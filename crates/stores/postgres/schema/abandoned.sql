-- Claimed or released, and quiet for as long as $2. $1 now or NULL.
SELECT count(*) FROM semel.records
WHERE state IN (0, 2)
  AND at <= coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) - $2::bigint
