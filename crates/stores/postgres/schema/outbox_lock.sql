-- Keeps others from making an outbox of the schema until the commit. $1 schema.
SELECT pg_advisory_xact_lock(hashtextextended('semel outbox ' || $1::text, 0)) IS NULL
