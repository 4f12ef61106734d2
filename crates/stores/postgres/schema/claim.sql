-- Claims what is absent and young enough, and reads what is there. Line 0 has the ids of what was
-- claimed with a token each, so that the usual answer is one row; every other key has a line of its own.
-- Fails, dividing by zero, where one of those tokens was overtaken: the floor under tokens, read after the insertion, is
-- as high. So the server undoes it all, and nobody sees a claim that is not one.
-- $1 now or NULL, $2 whether outcomes are wanted, $3 and $4 scope and lease where all keys have the same,
-- then per key, in the order of the ids; a list without values may be left empty.
-- A line without a state is of a key that is too old, or appeared after this statement began.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), asked AS MATERIALIZED (
    SELECT id, coalesce($3::integer, scope) AS scope, key, claim, fingerprint, transport, members, young_until,
           coalesce($4::bigint, lease) AS lease, recovery, n
    FROM unnest($5::bytea[], $6::integer[], $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[],
                $11::bytea[], $12::bigint[], $13::bigint[], $14::bigint[])
         WITH ORDINALITY AS asked (id, scope, key, claim, fingerprint, transport, members, young_until, lease,
                                   recovery, n)
), drawn AS (
    SELECT *, nextval('semel.token') AS token FROM asked CROSS JOIN clock
    WHERE young_until IS NULL OR now <= young_until
), fresh AS (
    INSERT INTO semel.records (id, scope, key, claim, fingerprint, transport, members, state, at, due, recovery,
                               started_at, token, created_at, attempts, revision)
    SELECT id, scope, key, claim, fingerprint, transport, members,
           CASE WHEN recovery IS NULL THEN 0 ELSE 1 END,
           now + lease,
           CASE WHEN recovery = -2 THEN now + lease END,
           recovery,
           CASE WHEN recovery IS NOT NULL THEN now END,
           token,
           now,
           1,
           token << 20
    FROM drawn
    ON CONFLICT (id) DO NOTHING
    RETURNING id, token
)
SELECT found.*, line.n, clock.now, line.ids, line.tokens,
       CASE WHEN line.first IS NOT NULL THEN 1 / (semel.floor() < line.first)::integer END
FROM (
    SELECT NULL AS id, 0 AS n, array_agg(id) AS ids, array_agg(token) AS tokens, min(token) AS first FROM fresh
    UNION ALL
    SELECT id, n, NULL, NULL, NULL FROM asked WHERE NOT EXISTS (SELECT FROM fresh WHERE fresh.id = asked.id)
) AS line
CROSS JOIN clock
LEFT JOIN LATERAL (
    SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
           created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at,
           past, members, CASE WHEN $2::boolean THEN codec END AS codec,
           CASE WHEN $2::boolean THEN outcome END AS outcome, revision,
           CASE WHEN state IN (0, 1, 2) OR due <= clock.now THEN nextval('semel.token') END AS spare
    FROM semel.records
    WHERE records.id = line.id
) AS found ON true
