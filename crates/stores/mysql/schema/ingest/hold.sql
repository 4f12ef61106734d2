-- Locks producers in their order. ? producers.
SELECT producer FROM semel_ingest_producers WHERE producer IN (?) ORDER BY producer FOR UPDATE
