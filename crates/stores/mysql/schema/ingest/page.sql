-- The producers of a page, by name. ? behind, most.
SELECT producer FROM semel_ingest_producers WHERE producer > ? ORDER BY producer LIMIT ?
