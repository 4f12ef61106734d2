-- A page of the producers, by name, each with its streams. ? behind, most.
SELECT producers.producer, producers.producer, producers.epoch, producers.frozen, streams.stream, 'ingest',
streams.next, streams.confirmed, streams.released
FROM (
SELECT listed.producer, listed.epoch, listed.frozen FROM semel_ingest_producers AS listed
WHERE listed.producer > ?
AND EXISTS (SELECT 1 FROM semel_ingest_streams AS own WHERE own.producer = listed.producer)
ORDER BY listed.producer LIMIT ?
) AS producers JOIN semel_ingest_streams AS streams
ON streams.producer = producers.producer
ORDER BY producers.producer, streams.stream
