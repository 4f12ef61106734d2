-- Removes what counts as absent of these ids. $1 now or NULL.
DELETE FROM semel.records
WHERE id = ANY ($2::bytea[]) AND state IN (3, 4) AND NOT held
  AND at + kept + kept / 8 + 1000
      <= coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
