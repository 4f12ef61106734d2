-- Whether the batch is the next one and the incarnation the latest: whatever follows writes nothing else.
-- ? producer, id, epoch, stream, first.
SET @semel.own = (SELECT COUNT(*) FROM semel_producers AS producers JOIN semel_producer_streams AS streams
ON streams.producer = producers.producer
WHERE producers.producer = ? AND producers.id = ? AND producers.epoch = ? AND streams.stream = ? AND streams.next = ?);
SELECT @semel.own
