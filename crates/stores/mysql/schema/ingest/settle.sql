-- ? through, the time, for tests, producer, stream, begun.
UPDATE semel_ingest_streams SET confirmed = GREATEST(confirmed, LEAST(?, next - 1)), heard = GREATEST(heard, COALESCE(?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000))
WHERE producer = ? AND stream = ? AND begun = ?
