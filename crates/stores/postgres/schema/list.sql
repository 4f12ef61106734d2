-- One page of records, in the order of their ids.
-- $1 after, $2 tenant or NULL, $3 operation or NULL, $4 state or NULL, $5 only repeated, $6 at most,
-- $7 at most so many are looked at: the last of them comes along unasked, since the next page begins behind it.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt, created_at,
       started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
       NULL::integer, NULL::bytea, revision, id, tenant, operation, key, place
FROM (
    SELECT *, row_number() OVER (ORDER BY id) AS place
    FROM semel.records
    WHERE id > $1::bytea
    ORDER BY id LIMIT $7::bigint
) AS ahead JOIN semel.scopes USING (scope)
WHERE place = $7::bigint
   OR ($2::text IS NULL OR tenant = $2::text) AND ($3::text IS NULL OR operation = $3::text)
  AND ($4::integer IS NULL OR state = $4::integer) AND (NOT $5::boolean OR repeats > 0)
ORDER BY id LIMIT $6::bigint
