-- Those of a page whose stream has been silent for long. ? the time, for tests; stream, the time for which they are
-- remembered, the name that is never forgotten, producers.
SET @semel.now = COALESCE(?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000);
SELECT producers.producer FROM semel_ingest_producers AS producers JOIN semel_ingest_streams AS streams
ON streams.producer = producers.producer AND streams.stream = ?
WHERE producers.frozen = 0 AND streams.confirmed >= streams.next - 1
AND streams.heard < @semel.now - ? AND producers.producer <> ? AND producers.producer IN (?)
ORDER BY producers.producer
