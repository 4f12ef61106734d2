-- Claims what is absent and young enough, and reads what is there: one row per key asked for.
-- $1 now or NULL, $2 whether outcomes are wanted, then per key, in the order of the ids.
-- A key with neither a fresh token nor a state is too old, or appeared after this statement began.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), asked AS MATERIALIZED (
    SELECT * FROM unnest($3::bytea[], $4::integer[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[],
                         $9::bigint[], $10::bigint[], $11::bigint[])
    WITH ORDINALITY AS asked (id, scope, key, claim, fingerprint, transport, young_until, lease,
                              recovery, n)
), fresh AS (
    INSERT INTO semel.records (id, scope, key, claim, fingerprint, transport, state, at, due, recovery,
                               started_at, token, created_at, attempts)
    SELECT id, scope, key, claim, fingerprint, transport,
           CASE WHEN recovery IS NULL THEN 0 ELSE 1 END,
           now + lease,
           CASE WHEN recovery = -2 THEN now + lease END,
           recovery,
           CASE WHEN recovery IS NOT NULL THEN now END,
           nextval('semel.token'),
           now,
           1
    FROM asked CROSS JOIN clock
    WHERE young_until IS NULL OR now <= young_until
    ORDER BY id
    ON CONFLICT (id) DO NOTHING
    RETURNING id, token AS granted
)
SELECT found.*, asked.n, clock.now, fresh.granted
FROM asked
CROSS JOIN clock
LEFT JOIN fresh ON fresh.id = asked.id
LEFT JOIN LATERAL (
    SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
           created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at,
           past, CASE WHEN $2::boolean THEN codec END AS codec,
           CASE WHEN $2::boolean THEN outcome END AS outcome, revision,
           CASE WHEN state IN (0, 1, 2) OR due <= clock.now THEN nextval('semel.token') END AS spare
    FROM semel.records
    WHERE records.id = asked.id AND fresh.id IS NULL
) AS found ON true
