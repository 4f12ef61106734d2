-- As many batches with messages behind a sequence as are a page, one in any case, in no order. Bodies are read at the
-- end, of these alone. ? producer, stream, behind, producer, stream, most, messages, bytes, producer, stream.
SELECT batches.first, batches.last, batches.at, batches.body FROM (
SELECT last FROM (
SELECT last, ROW_NUMBER() OVER (ORDER BY last) AS place, SUM(count) OVER (ORDER BY last) AS messages,
SUM(size) OVER (ORDER BY last) AS sizes FROM (
SELECT last, last - first + 1 AS count, size FROM semel_ingest_batches
WHERE producer = ? AND stream = ? AND last > GREATEST(?, COALESCE((
SELECT confirmed FROM semel_ingest_streams WHERE producer = ? AND stream = ?), 0))
ORDER BY last LIMIT ?) AS ahead) AS added
WHERE place = 1 OR (messages <= ? AND sizes <= ?)) AS page
JOIN semel_ingest_batches AS batches
ON batches.producer = ? AND batches.stream = ? AND batches.last = page.last
