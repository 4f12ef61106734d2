-- Batches that are settled whole. ? producer, stream, producer, stream.
DELETE FROM semel_ingest_batches WHERE producer = ? AND stream = ? AND last <= (
SELECT confirmed FROM semel_ingest_streams WHERE producer = ? AND stream = ?)
