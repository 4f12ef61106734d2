-- The stream of an opening. ? producer, stream, target, target.
INSERT INTO semel_producer_streams (producer, stream, target, next, confirmed, released) VALUES (?, ?, ?, 1, 0, 0)
ON DUPLICATE KEY UPDATE target = ?
