-- The state, and the progress in an input. $1 producer, $2 stream, $3 digest.
SELECT producers.id, producers.epoch, producers.frozen, streams.next, streams.confirmed, streams.released, inputs.read,
       inputs.bytes, inputs.whole
FROM semel.producers
LEFT JOIN semel.producer_streams AS streams ON streams.producer = producers.producer AND streams.stream = $2::text
LEFT JOIN semel.producer_inputs AS inputs
    ON inputs.producer = producers.producer AND inputs.stream = $2 AND inputs.digest = $3::bytea
WHERE producers.producer = $1::text
