-- The epoch, and a stream that is new. ? epoch, producer; producer, stream, the time, for tests, first, first, first, the
-- time; the time.
UPDATE semel_ingest_producers SET epoch = GREATEST(epoch, ?) WHERE producer = ?;
INSERT INTO semel_ingest_streams (producer, stream, begun, next, confirmed, released, heard)
SELECT ?, ?, COALESCE(?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000), ?, ? - 1, ? - 1, COALESCE(?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000) FROM DUAL
ON DUPLICATE KEY UPDATE heard = GREATEST(semel_ingest_streams.heard, COALESCE(?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000))
