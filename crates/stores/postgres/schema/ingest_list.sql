SELECT producers.producer, producers.producer, producers.epoch, producers.frozen, streams.stream, 'ingest',
       streams.next, streams.confirmed, streams.released
FROM semel.ingest_producers AS producers JOIN semel.ingest_streams AS streams ON streams.producer = producers.producer
ORDER BY producers.producer, streams.stream
