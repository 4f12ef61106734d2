-- The streams with messages that are not published: how many wait, how many are dead, and what relays them.
SELECT found.stream, found.waiting, found.dead, relays.relay
FROM (
    SELECT stream, SUM(dead_at IS NULL) AS waiting, SUM(dead_at IS NOT NULL) AS dead
    FROM semel_outbox WHERE sent_at IS NULL GROUP BY stream
) AS found
LEFT JOIN semel_outbox_relays AS relays ON relays.stream = found.stream
ORDER BY found.stream
