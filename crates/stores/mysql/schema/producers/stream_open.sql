-- A new epoch, and the stream of an opening. The rows of all streams are written, which a late append or confirmation
-- writes as well: where several nodes take writes, that is what they conflict by.
-- ? producer; producer, stream, target, target; producer.
UPDATE semel_producers SET epoch = epoch + 1 WHERE producer = ? AND @semel.elsewhere = 0;
INSERT INTO semel_producer_streams (producer, stream, target, next, confirmed, released, openings)
SELECT ?, ?, ?, 1, 0, 0, 0 FROM DUAL WHERE @semel.elsewhere = 0 ON DUPLICATE KEY UPDATE target = ?;
UPDATE semel_producer_streams SET openings = openings + 1 WHERE producer = ? AND @semel.elsewhere = 0
