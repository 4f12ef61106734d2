-- Moves the stream on. ? next, confirmed, producer, stream.
UPDATE semel_producer_streams SET next = ?, confirmed = GREATEST(confirmed, ?)
WHERE producer = ? AND stream = ? AND @semel.own = 1
