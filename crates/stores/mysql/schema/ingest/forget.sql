-- Forgets a stream of producers that are locked, and those that have no other. ? producers, stream; producers, stream;
-- producers.
DELETE FROM semel_ingest_digests WHERE producer IN (?) AND stream = ?;
DELETE FROM semel_ingest_streams WHERE producer IN (?) AND stream = ?;
DELETE FROM semel_ingest_producers WHERE producer IN (?) AND NOT EXISTS (
SELECT 1 FROM semel_ingest_streams WHERE semel_ingest_streams.producer = semel_ingest_producers.producer)
