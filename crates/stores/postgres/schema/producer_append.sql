-- Appends a batch if it is the next one and the incarnation the latest, and tells the state. The row of the producer is
-- locked first, by every statement that writes: what is updated behind it is compared as it is then. What is only read
-- is as it was at the beginning of the statement; the last column says whether anything was written.
-- $1 producer, $2 id, $3 epoch, $4 stream, $5 first, $6 behind the last, $7 at, $8 body, $9 confirmed,
-- $10 to $13 the input: digest or NULL, rows, bytes, whether whole; $14 how many other inputs are kept.
WITH own AS (
    SELECT frozen FROM semel.producers
    WHERE producer = $1::text AND id = $2::text AND epoch = $3::bigint FOR NO KEY UPDATE
), moved AS (
    UPDATE semel.producer_streams AS streams
    SET next = $6::bigint, confirmed = greatest(streams.confirmed, least($9::bigint, $6 - 1))
    FROM own WHERE streams.producer = $1 AND streams.stream = $4::text AND streams.next = $5::bigint
    RETURNING streams.next, streams.confirmed, streams.released, own.frozen
), kept AS (
    INSERT INTO semel.producer_batches (producer, stream, first, last, at, body)
    SELECT $1, $4, $5, $6 - 1, $7::bigint, $8::bytea FROM moved WHERE $6 > $5 AND $6 - 1 > moved.confirmed
), forgotten AS (
    DELETE FROM semel.producer_batches AS batches USING moved
    WHERE batches.producer = $1 AND batches.stream = $4 AND batches.last <= moved.confirmed
), noted AS (
    INSERT INTO semel.producer_inputs (producer, stream, digest, read, bytes, whole)
    SELECT $1, $4, $10::bytea, $11::bigint, $12::bigint, $13::boolean FROM moved WHERE $10 IS NOT NULL
    ON CONFLICT (producer, stream, digest) DO UPDATE
    SET place = excluded.place, read = excluded.read, bytes = excluded.bytes, whole = excluded.whole
), trimmed AS (
    DELETE FROM semel.producer_inputs AS inputs USING moved
    WHERE inputs.producer = $1 AND inputs.stream = $4 AND inputs.digest <> $10 AND inputs.place <= (
        SELECT place FROM semel.producer_inputs WHERE producer = $1 AND stream = $4 AND digest <> $10
        ORDER BY place DESC OFFSET $14::bigint LIMIT 1)
)
SELECT producers.id, producers.epoch, coalesce(moved.frozen, producers.frozen), coalesce(moved.next, streams.next),
       coalesce(moved.confirmed, streams.confirmed), coalesce(moved.released, streams.released), moved.next IS NOT NULL
FROM semel.producers
LEFT JOIN semel.producer_streams AS streams ON streams.producer = producers.producer AND streams.stream = $4
LEFT JOIN moved ON true
WHERE producers.producer = $1
