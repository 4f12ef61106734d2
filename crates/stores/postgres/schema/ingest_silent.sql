-- Locks those of a page whose stream has been silent for long, in their order; those that others hold are not silent.
-- $1 producers, $2 stream, $3 the time for which they are remembered, $4 the name that is never forgotten, $5 the time, for
-- tests.
SELECT producers.producer FROM semel.ingest_producers AS producers
JOIN semel.ingest_streams AS streams ON streams.producer = producers.producer AND streams.stream = $2::text
WHERE producers.producer = ANY ($1::text[]) AND producers.producer <> $4::text AND NOT producers.frozen
    AND streams.confirmed >= streams.next - 1
    AND streams.heard < coalesce($5::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) - $3::bigint
ORDER BY producers.producer
FOR UPDATE OF producers SKIP LOCKED
