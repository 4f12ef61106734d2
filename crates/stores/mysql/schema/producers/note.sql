-- The progress in an input, which is the one that is used last now. ? producer, stream; producer, stream, digest, rows,
-- bytes, whole; rows, bytes, whole.
SET @semel.place = (SELECT COALESCE(MAX(place), 0) + 1 FROM semel_producer_inputs WHERE producer = ? AND stream = ?);
INSERT INTO semel_producer_inputs (producer, stream, digest, place, read_rows, read_bytes, whole)
SELECT ?, ?, ?, @semel.place, ?, ?, ? FROM DUAL WHERE @semel.own = 1
ON DUPLICATE KEY UPDATE place = @semel.place, read_rows = ?, read_bytes = ?, whole = ?
