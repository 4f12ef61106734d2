-- Extends the leases of those who ask for their own, and reads the rest.
-- Line 0 has the places of what was renewed. $1 now or NULL, then per key.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), asked AS MATERIALIZED (
    SELECT * FROM unnest($2::bytea[], $3::bytea[], $4::bigint[])
    WITH ORDINALITY AS asked (id, claim, lease, n)
), done AS (
    UPDATE semel.records
    SET at = now + lease, revision = revision + 1,
        due = CASE WHEN state = 1 AND recovery = -2 THEN now + lease END
    FROM asked CROSS JOIN clock
    WHERE records.id = asked.id AND records.claim = asked.claim AND records.state IN (0, 1)
      AND records.entity IS NULL
    RETURNING asked.n
)
SELECT found.*, line.n, clock.now, line.places
FROM (
    SELECT NULL AS id, 0 AS n, array_agg(n) AS places FROM done
    UNION ALL
    SELECT id, n, NULL FROM asked WHERE NOT EXISTS (SELECT FROM done WHERE done.n = asked.n)
) AS line
CROSS JOIN clock
LEFT JOIN LATERAL (
    SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
           created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at,
           past, members, NULL::integer AS codec, NULL::bytea AS outcome, revision
    FROM semel.records
    WHERE records.id = line.id
) AS found ON true
