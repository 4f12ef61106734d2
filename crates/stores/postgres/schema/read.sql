-- Reads what there is of these ids. $1 now or NULL, $2 whether outcomes are wanted.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
)
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt, created_at,
       started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
       CASE WHEN $2::boolean THEN codec END, CASE WHEN $2::boolean THEN outcome END, revision, asked.n,
       clock.now
FROM unnest($3::bytea[]) WITH ORDINALITY AS asked (id, n)
CROSS JOIN clock
LEFT JOIN semel.records ON records.id = asked.id
