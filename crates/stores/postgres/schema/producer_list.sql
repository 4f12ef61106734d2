SELECT producers.producer, producers.id, producers.epoch, producers.frozen, streams.stream, streams.target,
       streams.next, streams.confirmed, streams.released
FROM semel.producers JOIN semel.producer_streams AS streams ON streams.producer = producers.producer
ORDER BY producers.producer, streams.stream
