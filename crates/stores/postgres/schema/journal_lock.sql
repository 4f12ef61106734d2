-- Keeps others from making tables of the schema until the commit. $1 schema.
SELECT pg_advisory_xact_lock(hashtextextended('semel store ' || $1::text, 0)) IS NULL
