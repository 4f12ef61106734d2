-- ? through, producer, stream, producer, id, epoch.
UPDATE semel_producer_streams SET confirmed = GREATEST(confirmed, LEAST(?, next - 1))
WHERE producer = ? AND stream = ?
AND EXISTS (SELECT 1 FROM semel_producers WHERE producer = ? AND id = ? AND epoch = ?)
