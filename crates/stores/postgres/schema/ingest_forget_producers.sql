-- Forgets those of producers that are locked that have no other stream. $1 producers.
DELETE FROM semel.ingest_producers AS producers
WHERE producer = ANY ($1::text[])
    AND NOT EXISTS (SELECT FROM semel.ingest_streams AS streams WHERE streams.producer = producers.producer)
