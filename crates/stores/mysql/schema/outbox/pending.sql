-- What is to be published next, of the partitions whose lease is still that of the caller, in no order. One time decides
-- what is due: what comes due within the scan would be left out, and what is behind it would not. What is new and what
-- comes again are looked for apart, so that each is found in an index in its order. ? stream, ? partitions, ? at most,
-- ? stream, ? partitions, ? at most, ? at most, ? stream, ? process, ? partitions with their tokens, ? the bytes after
-- which there is no other.
SELECT message.id, message.part, message.place, message.order_key, message.headers, message.payload, message.attempts
FROM (
    SELECT id, bytes, SUM(bytes) OVER (ORDER BY place, id) AS total FROM (
        (SELECT id, place, bytes FROM semel_outbox AS fresh FORCE INDEX (pending)
         WHERE fresh.stream = ? AND fresh.sent_at IS NULL AND fresh.due_at IS NULL AND fresh.part IN (?)
           AND NOT EXISTS (
               SELECT 1 FROM semel_outbox AS earlier FORCE INDEX (late)
               WHERE earlier.late_hash = fresh.order_hash AND earlier.due_at > @semel.now AND earlier.sent_at IS NULL
                 AND earlier.stream = fresh.stream AND earlier.order_key = fresh.order_key AND earlier.place < fresh.place
           )
         ORDER BY fresh.place LIMIT ?)
        UNION ALL
        (SELECT id, place, bytes FROM semel_outbox AS again FORCE INDEX (pending)
         WHERE again.stream = ? AND again.sent_at IS NULL AND again.due_at <= @semel.now AND again.part IN (?)
           AND NOT EXISTS (
               SELECT 1 FROM semel_outbox AS earlier FORCE INDEX (late)
               WHERE earlier.late_hash = again.order_hash AND earlier.due_at > @semel.now AND earlier.sent_at IS NULL
                 AND earlier.stream = again.stream AND earlier.order_key = again.order_key AND earlier.place < again.place
           )
         ORDER BY again.place LIMIT ?)
    ) AS found ORDER BY place, id LIMIT ?
) AS fitting
STRAIGHT_JOIN semel_outbox AS message FORCE INDEX (PRIMARY) ON message.id = fitting.id
STRAIGHT_JOIN semel_outbox_leases AS lease ON lease.stream = ? AND lease.part = message.part
    AND lease.holder = ? AND lease.until > @semel.now AND (lease.part, lease.token) IN (?)
WHERE fitting.total - fitting.bytes < ?
