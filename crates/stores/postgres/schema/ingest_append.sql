-- Takes a batch that is new whole, of an epoch that is on record, and tells the state. The row of the producer is locked
-- first, by every statement that writes: what is updated behind it is compared as it is then. What is only read is as it
-- was at the beginning of the statement; the last column says whether anything was written.
-- $1 producer, $2 epoch, $3 stream, $4 first or NULL where nobody numbers, $5 how many, $6 at, $7 body, $8 digest or NULL,
-- $9 how many other digests are kept, $10 the time, for tests.
WITH own AS (
    SELECT frozen FROM semel.ingest_producers
    WHERE producer = $1::text AND epoch = $2::bigint FOR NO KEY UPDATE
), moved AS (
    UPDATE semel.ingest_streams AS streams
    SET next = streams.next + $5::bigint,
        heard = greatest(streams.heard, coalesce($10::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
    FROM own
    WHERE streams.producer = $1 AND streams.stream = $3::text AND streams.next = coalesce($4::bigint, streams.next)
        AND NOT EXISTS (
            SELECT FROM semel.ingest_digests WHERE producer = $1 AND stream = $3 AND digest = $8::bytea)
    RETURNING streams.next, own.frozen
), kept AS (
    INSERT INTO semel.ingest_batches (producer, stream, first, last, at, body)
    SELECT $1, $3, moved.next - $5, moved.next - 1, $6::bigint, $7::bytea FROM moved
), noted AS (
    INSERT INTO semel.ingest_digests (producer, stream, digest) SELECT $1, $3, $8 FROM moved WHERE $8 IS NOT NULL
), trimmed AS (
    DELETE FROM semel.ingest_digests AS digests USING moved
    WHERE $8 IS NOT NULL AND digests.producer = $1 AND digests.stream = $3 AND digests.place <= (
        SELECT place FROM semel.ingest_digests WHERE producer = $1 AND stream = $3
        ORDER BY place DESC OFFSET $9::bigint LIMIT 1)
)
SELECT producers.epoch, coalesce(moved.frozen, producers.frozen), coalesce(moved.next, streams.next),
       digests.digest IS NOT NULL, moved.next IS NOT NULL
FROM semel.ingest_producers AS producers
LEFT JOIN semel.ingest_streams AS streams ON streams.producer = producers.producer AND streams.stream = $3
LEFT JOIN semel.ingest_digests AS digests
    ON digests.producer = producers.producer AND digests.stream = $3 AND digests.digest = $8
LEFT JOIN moved ON true
WHERE producers.producer = $1
