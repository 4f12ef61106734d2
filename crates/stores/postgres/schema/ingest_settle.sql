-- Settles messages of this life of a stream, if any of them is not; see ingest_append.sql.
-- $1 producer, $2 stream, $3 begun, $4 through, $5 the time, for tests.
WITH own AS (
    SELECT producers.producer FROM semel.ingest_producers AS producers
    JOIN semel.ingest_streams AS streams ON streams.producer = producers.producer AND streams.stream = $2::text
    WHERE producers.producer = $1::text AND streams.begun = $3::bigint
        AND streams.confirmed < least($4::bigint, streams.next - 1)
    FOR NO KEY UPDATE OF producers
), moved AS (
    UPDATE semel.ingest_streams AS streams
    SET confirmed = greatest(streams.confirmed, least($4, streams.next - 1)),
        heard = greatest(streams.heard, coalesce($5::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
    FROM own WHERE streams.producer = $1 AND streams.stream = $2 AND streams.begun = $3
    RETURNING streams.confirmed
)
DELETE FROM semel.ingest_batches AS batches USING moved
WHERE batches.producer = $1 AND batches.stream = $2 AND batches.last <= moved.confirmed
