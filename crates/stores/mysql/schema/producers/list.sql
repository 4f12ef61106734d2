-- A page of the producers, by name, each with its streams. ? behind, most.
SELECT producers.producer, producers.id, producers.epoch, producers.frozen, streams.stream, streams.target,
streams.next, streams.confirmed, streams.released
FROM (
SELECT listed.producer, listed.id, listed.epoch, listed.frozen FROM semel_producers AS listed
WHERE listed.producer > ?
AND EXISTS (SELECT 1 FROM semel_producer_streams AS own WHERE own.producer = listed.producer)
ORDER BY listed.producer LIMIT ?
) AS producers JOIN semel_producer_streams AS streams ON streams.producer = producers.producer
ORDER BY producers.producer, streams.stream
