-- Forgets the stream of producers that are locked, as it is behind the lock. $1 producers, $2 stream, $3 the time for which
-- they are remembered, $4 the time, for tests.
WITH gone AS (
    DELETE FROM semel.ingest_streams AS streams USING semel.ingest_producers AS producers
    WHERE producers.producer = streams.producer AND NOT producers.frozen
        AND streams.producer = ANY ($1::text[]) AND streams.stream = $2::text
        AND streams.confirmed >= streams.next - 1
        AND streams.heard < coalesce($4::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) - $3::bigint
    RETURNING streams.producer
), digests AS (
    DELETE FROM semel.ingest_digests AS digests USING gone
    WHERE digests.producer = gone.producer AND digests.stream = $2
)
SELECT producer FROM gone ORDER BY producer
