-- Takes what was decided to be taken, behind the lock. $1 producer, $2 epoch, $3 stream, $4 first of a stream that is new,
-- $5 next, $6 at, $7 body, $8 digest or NULL, $9 how many other digests are kept, $10 how many are new, $11 the time, for
-- tests.
WITH raised AS (
    UPDATE semel.ingest_producers SET epoch = greatest(epoch, $2::bigint) WHERE producer = $1::text
), moved AS (
    INSERT INTO semel.ingest_streams AS streams (producer, stream, next, confirmed, released, heard)
    VALUES ($1, $3::text, $5::bigint, $4::bigint - 1, $4 - 1,
            coalesce($11::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
    ON CONFLICT (producer, stream) DO UPDATE
    SET next = excluded.next, heard = greatest(streams.heard, excluded.heard)
), kept AS (
    INSERT INTO semel.ingest_batches (producer, stream, first, last, at, body)
    SELECT $1, $3, $5 - $10::bigint, $5 - 1, $6::bigint, $7::bytea WHERE $10 > 0
), noted AS (
    INSERT INTO semel.ingest_digests (producer, stream, digest) SELECT $1, $3, $8::bytea WHERE $10 > 0 AND $8 IS NOT NULL
)
DELETE FROM semel.ingest_digests AS digests
WHERE $10 > 0 AND $8 IS NOT NULL AND digests.producer = $1 AND digests.stream = $3 AND digests.place <= (
        SELECT place FROM semel.ingest_digests WHERE producer = $1 AND stream = $3
        ORDER BY place DESC OFFSET $9::bigint LIMIT 1)
