-- Puts messages off, or gives them up; returns which. $1 stream, $2 process, $3 ids, $4 partitions, $5 tokens,
-- $6 milliseconds until the next try, negative for none, $7 reasons, $8 whether the try counts.
WITH unsent AS (
    SELECT unsent.id::uuid AS id, unsent.part, unsent.wait, unsent.error, unsent.counted
    FROM unnest($3::text[], $4::smallint[], $5::bigint[], $6::bigint[], $7::text[], $8::boolean[])
        AS unsent (id, part, token, wait, error, counted)
    JOIN semel_outbox_leases AS lease ON lease.stream = $1::text AND lease.part = unsent.part
        AND lease.token = unsent.token AND lease.holder = $2::text AND lease.until > clock_timestamp()
), changed AS (
    UPDATE semel_outbox AS message SET
        attempts = attempts + CASE WHEN unsent.counted THEN 1 ELSE 0 END,
        error = unsent.error,
        due_at = CASE WHEN unsent.wait < 0 THEN 'infinity'
                 ELSE clock_timestamp() + unsent.wait * interval '1 millisecond' END,
        dead_at = CASE WHEN unsent.wait < 0 THEN clock_timestamp() END
    FROM unsent
    WHERE message.id = unsent.id AND message.part = unsent.part AND message.sent_at IS NULL
    RETURNING message.id
)
SELECT id::text FROM changed
