SELECT producers.producer, producers.producer, producers.epoch, producers.frozen, streams.stream, 'ingest',
streams.next, streams.confirmed, streams.released
FROM semel_ingest_producers AS producers JOIN semel_ingest_streams AS streams
ON streams.producer = producers.producer
ORDER BY producers.producer, streams.stream
