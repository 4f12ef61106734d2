-- Writes records anew whose revision still stands; answers with their ids. Locked in the order of
-- the ids first, so that two statements cannot wait for each other.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[],
                         $6::bigint[], $7::bigint[], $8::bytea[], $9::bigint[], $10::integer[],
                         $11::integer[], $12::integer[], $13::bigint[], $14::bigint[], $15::bigint[],
                         $16::text[], $17::bytea[], $18::bytea[], $19::bytea[], $20::bigint[],
                         $21::boolean[], $22::bigint[], $23::bytea[], $24::bytea[], $25::integer[], $26::bytea[],
                         $27::bigint[])
    AS asked (id, revision, state, at, kept, margin, recovery, claim, token, attempts, vanished,
              repeats, doubt, created_at, started_at, error, fingerprint, transport, entity, version,
              held, claimed_at, past, members, codec, outcome, due)
), locked AS MATERIALIZED (
    SELECT records.id FROM semel.records JOIN asked ON records.id = asked.id
    WHERE records.revision = asked.revision
    ORDER BY records.id
    FOR UPDATE OF records
)
UPDATE semel.records
SET state = asked.state, at = asked.at, kept = asked.kept, margin = asked.margin,
    recovery = asked.recovery, claim = asked.claim, token = asked.token, attempts = asked.attempts,
    vanished = asked.vanished, repeats = asked.repeats, doubt = asked.doubt,
    created_at = asked.created_at, started_at = asked.started_at, error = asked.error,
    fingerprint = asked.fingerprint, transport = asked.transport, entity = asked.entity,
    version = asked.version, held = asked.held, claimed_at = asked.claimed_at, past = asked.past, members = asked.members,
    codec = asked.codec, outcome = asked.outcome, due = asked.due,
    revision = records.revision + 1
FROM asked JOIN locked ON locked.id = asked.id
WHERE records.id = asked.id AND records.revision = asked.revision
RETURNING records.id
