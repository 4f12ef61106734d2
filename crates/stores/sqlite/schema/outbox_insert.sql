-- A message in the transaction of a user; a UUIDv7 is made where there is no id: 48 bits of milliseconds, the rest by
-- chance. ?1 id or NULL, ?2 stream, ?3 order key, ?4 headers, ?5 payload.
INSERT INTO semel_outbox (id, stream, order_key, headers, payload)
VALUES (
    coalesce(?1, unhex(
        printf('%012x', CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
        || '7' || substr(hex(randomblob(2)), 2)
        || substr('89AB', 1 + (random() & 3), 1) || substr(hex(randomblob(8)), 2)
    )),
    ?2, ?3, ?4, ?5
)
RETURNING id
