-- The producers of a page, by name. $1 behind, $2 most.
SELECT producer FROM semel.ingest_producers WHERE producer > $1::text ORDER BY producer LIMIT $2::bigint
