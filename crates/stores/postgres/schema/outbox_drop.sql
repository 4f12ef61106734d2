-- Removes dead messages, and wakes the relays for what waited behind them. $1 stream, $2 ids.
WITH changed AS (
    DELETE FROM semel_outbox
    WHERE stream = $1::text AND id = ANY ($2::text[]::uuid[]) AND sent_at IS NULL AND dead_at IS NOT NULL
    RETURNING id
)
SELECT id::text, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_notify('semel_outbox', '') IS NULL
FROM changed
