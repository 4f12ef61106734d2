-- The state of a stream, and as many batches with messages behind $3 as are a page: one in any case. A row without a batch
-- where there is none. $1 producer, $2 stream, $4 messages, $5 bytes.
SELECT streams.begun, streams.next, streams.confirmed, streams.released, producers.frozen, page.first, page.last, page.at,
       page.body
FROM semel.ingest_producers AS producers
JOIN semel.ingest_streams AS streams ON streams.producer = producers.producer AND streams.stream = $2::text
LEFT JOIN LATERAL (
    SELECT first, last, at, body FROM (
        SELECT first, last, at, body, row_number() OVER behind AS number,
               sum(last - first + 1) OVER behind AS messages, sum(octet_length(body)) OVER behind AS size
        FROM (
            SELECT first, last, at, body FROM semel.ingest_batches AS batches
            WHERE batches.producer = $1::text AND batches.stream = $2 AND last > greatest($3::bigint, streams.confirmed)
            ORDER BY last LIMIT greatest($4::bigint, 1)
        ) AS ahead
        WINDOW behind AS (ORDER BY last)
    ) AS added
    WHERE number = 1 OR (messages <= $4 AND size <= $5::bigint)
) AS page ON true
WHERE producers.producer = $1
ORDER BY page.last
