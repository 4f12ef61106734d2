-- Writes records of keys that have none; answers with their ids. Where their tokens are to be new ($29), not
-- with those whose token was overtaken by another life of a key: the caller undoes them.
WITH written AS (
INSERT INTO semel.records (id, state, at, kept, margin, recovery, claim, token, attempts, vanished,
                           repeats, doubt, created_at, started_at, error, fingerprint, transport,
                           entity, version, held, claimed_at, past, members, codec, outcome, due, scope, key,
                           revision)
SELECT id, state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
       created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
       codec, outcome, due, scope, key, token << 20
FROM unnest($1::bytea[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::bytea[], $8::bigint[], $9::integer[], $10::integer[], $11::integer[], $12::bigint[],
            $13::bigint[], $14::bigint[], $15::text[], $16::bytea[], $17::bytea[], $18::bytea[],
            $19::bigint[], $20::boolean[], $21::bigint[], $22::bytea[], $23::bytea[], $24::integer[], $25::bytea[],
            $26::bigint[], $27::integer[], $28::bytea[])
     AS asked (id, state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
               created_at, started_at, error, fingerprint, transport, entity, version, held,
               claimed_at, past, members, codec, outcome, due, scope, key)
ORDER BY id
ON CONFLICT (id) DO NOTHING
RETURNING id, token
)
SELECT id FROM written WHERE NOT $29::boolean OR token > semel.floor()
