-- Moves the stream on. ? how many, the time, for tests, producer, stream.
UPDATE semel_ingest_streams SET next = @semel.own + ?, heard = GREATEST(heard, COALESCE(?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000))
WHERE producer = ? AND stream = ? AND @semel.own IS NOT NULL
