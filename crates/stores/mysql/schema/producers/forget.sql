-- Batches that are confirmed whole. ? producer, stream, producer, stream.
DELETE FROM semel_producer_batches WHERE producer = ? AND stream = ? AND last <= (
SELECT confirmed FROM semel_producer_streams WHERE producer = ? AND stream = ?)
