-- A message in the transaction of a user, who may need no right to read it. $1 id or NULL, $2 stream, $3 order key,
-- $4 headers, $5 payload.
WITH message AS MATERIALIZED (
    SELECT coalesce($1::text::uuid, semel_outbox_id()) AS id
), put AS (
    INSERT INTO semel_outbox (id, stream, order_key, headers, payload)
    SELECT id, $2::text, $3::text, $4::text::json, $5::bytea FROM message
)
SELECT id::text FROM message
