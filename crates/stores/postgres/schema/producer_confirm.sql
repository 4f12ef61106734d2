-- Confirms messages, if any of them is not, and tells the state; see producer_append.sql.
-- $1 producer, $2 id, $3 epoch, $4 stream, $5 through.
WITH own AS (
    SELECT producers.frozen FROM semel.producers
    JOIN semel.producer_streams AS streams ON streams.producer = producers.producer AND streams.stream = $4::text
    WHERE producers.producer = $1::text AND producers.id = $2::text AND producers.epoch = $3::bigint
        AND streams.confirmed < least($5::bigint, streams.next - 1)
    FOR NO KEY UPDATE OF producers
), moved AS (
    UPDATE semel.producer_streams AS streams SET confirmed = greatest(streams.confirmed, least($5, streams.next - 1))
    FROM own WHERE streams.producer = $1 AND streams.stream = $4
    RETURNING streams.next, streams.confirmed, streams.released, own.frozen
), forgotten AS (
    DELETE FROM semel.producer_batches AS batches USING moved
    WHERE batches.producer = $1 AND batches.stream = $4 AND batches.last <= moved.confirmed
)
SELECT producers.id, producers.epoch, coalesce(moved.frozen, producers.frozen), coalesce(moved.next, streams.next),
       coalesce(moved.confirmed, streams.confirmed), coalesce(moved.released, streams.released), moved.next IS NOT NULL
FROM semel.producers
LEFT JOIN semel.producer_streams AS streams ON streams.producer = producers.producer AND streams.stream = $4
LEFT JOIN moved ON true
WHERE producers.producer = $1
