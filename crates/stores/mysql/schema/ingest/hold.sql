-- Locks a producer unless somebody else has: nobody waits for whoever is silent. ? producer.
SET @semel.held = NULL;
SELECT producer INTO @semel.held FROM semel_ingest_producers WHERE producer = ? FOR UPDATE NOWAIT
