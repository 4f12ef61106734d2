-- Started effects that are not to be run again, and whose lease is over. $1 now or NULL, $2 at most.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
)
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt, created_at,
       started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
       codec, outcome, revision, id, now
FROM clock, semel.records
WHERE due <= now AND state = 1
ORDER BY due LIMIT $2::bigint
