-- Forgets a stream of the producer that is locked, if it has been silent for long, and the producer if it has no other.
-- ? the time, for tests; stream, the time for which they are remembered, the name that is never forgotten; stream; stream.
SET @semel.now = COALESCE(?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000);
SET @semel.gone = (SELECT MAX(producers.producer) FROM semel_ingest_producers AS producers JOIN semel_ingest_streams AS streams
ON streams.producer = producers.producer AND streams.stream = ?
WHERE producers.frozen = 0 AND streams.confirmed >= streams.next - 1
AND streams.heard < @semel.now - ? AND producers.producer <> ? AND producers.producer = @semel.held);
DELETE FROM semel_ingest_digests WHERE producer = @semel.gone AND stream = ?;
DELETE FROM semel_ingest_streams WHERE producer = @semel.gone AND stream = ?;
DELETE FROM semel_ingest_producers WHERE producer = @semel.gone AND NOT EXISTS (
SELECT 1 FROM semel_ingest_streams WHERE semel_ingest_streams.producer = semel_ingest_producers.producer);
SELECT @semel.gone
