-- What is to be published next, of the partitions whose lease is still that of the caller. $1 stream, $2 process,
-- $3 partitions, $4 their tokens, $5 at most, $6 the place to go on behind, which is none: a transaction that commits
-- late has lower places than those that were published, $7 the bytes after which there is no other. One time decides
-- what is due: what comes due within the scan would be left out, and what is behind it would not.
WITH held AS MATERIALIZED (
    SELECT lease.part, lease.token FROM unnest($3::smallint[], $4::bigint[]) AS asked (part, token)
    JOIN semel_outbox_leases AS lease ON lease.stream = $1::text AND lease.part = asked.part
        AND lease.token = asked.token AND lease.holder = $2::text AND lease.until > clock_timestamp()
), pending AS MATERIALIZED (
    SELECT message.id, message.place, octet_length(message.payload) AS bytes FROM semel_outbox AS message
    WHERE message.stream = $1 AND message.sent_at IS NULL AND message.part = ANY ($3)
      AND message.place > $6::bigint
      AND (message.due_at IS NULL OR message.due_at <= statement_timestamp())
      AND NOT EXISTS (
          SELECT FROM semel_outbox AS earlier
          WHERE earlier.stream = message.stream AND earlier.order_key = message.order_key
            AND earlier.sent_at IS NULL AND earlier.due_at > statement_timestamp() AND earlier.place < message.place
          -- One look into the index for each message. As a join, with statistics of a time at which nothing was put off,
          -- it would compare each message with all that were.
          OFFSET 0
      )
    ORDER BY message.place LIMIT $5::bigint
), fitting AS MATERIALIZED (
    SELECT id FROM (SELECT id, bytes, sum(bytes) OVER (ORDER BY place) AS sum FROM pending) AS summed
    WHERE sum - bytes < $7::bigint
)
SELECT message.id::text, message.part, message.place, message.order_key, message.headers::text, message.payload,
       message.attempts
FROM fitting JOIN semel_outbox AS message ON message.id = fitting.id JOIN held ON held.part = message.part
ORDER BY message.place
