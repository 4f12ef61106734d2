-- Completes what is claimed, started or in doubt under the claim that reports, and reads the rest.
-- Line 0 has the places of what was completed. $1 now or NULL, then per key.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), asked AS MATERIALIZED (
    SELECT * FROM unnest($2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::integer[], $7::bytea[])
    WITH ORDINALITY AS asked (id, claim, kept, margin, codec, outcome, n)
), done AS (
    UPDATE semel.records
    SET state = 3, at = now, kept = asked.kept, margin = asked.margin, recovery = NULL,
        due = CASE WHEN NOT held THEN now + asked.kept END, codec = asked.codec,
        outcome = asked.outcome, error = NULL, doubt = NULL, revision = revision + 1
    FROM asked CROSS JOIN clock
    WHERE records.id = asked.id AND records.claim = asked.claim AND records.state IN (0, 1, 5)
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
