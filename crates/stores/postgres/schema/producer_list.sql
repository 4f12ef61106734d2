-- A page of the producers, by name, each with its streams. $1 behind, $2 most.
SELECT producers.producer, producers.id, producers.epoch, producers.frozen, streams.stream, streams.target,
       streams.next, streams.confirmed, streams.released
FROM (
    SELECT * FROM semel.producers AS listed
    WHERE listed.producer > $1::text
      AND EXISTS (SELECT 1 FROM semel.producer_streams AS own WHERE own.producer = listed.producer)
    ORDER BY listed.producer LIMIT $2::bigint
) AS producers JOIN semel.producer_streams AS streams ON streams.producer = producers.producer
ORDER BY producers.producer, streams.stream
