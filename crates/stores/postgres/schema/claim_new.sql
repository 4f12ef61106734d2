-- As `claim.sql`, with the same parameters, for keys that are all hoped to be new: one that is there fails the
-- whole statement. Its one row has the ids of what was claimed, their tokens and the time.
-- What is too old is in no list. $2::boolean is not needed.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
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
    FROM (
        SELECT id, coalesce($3::integer, scope) AS scope, key, claim, fingerprint, transport, members,
               coalesce($4::bigint, lease) AS lease, recovery, now, nextval('semel.token') AS token
        FROM clock,
             unnest($5::bytea[], $6::integer[], $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[],
                    $11::bytea[], $12::bigint[], $13::bigint[], $14::bigint[])
                 AS asked (id, scope, key, claim, fingerprint, transport, members, young_until, lease, recovery)
        WHERE young_until IS NULL OR now <= young_until
    ) AS drawn
    RETURNING id, token
), claimed AS MATERIALIZED (
    SELECT array_agg(id) AS ids, array_agg(token) AS tokens, min(token) AS first FROM fresh
)
SELECT ids, tokens, now, CASE WHEN first IS NOT NULL THEN 1 / (semel.floor() < first)::integer END FROM claimed, clock
