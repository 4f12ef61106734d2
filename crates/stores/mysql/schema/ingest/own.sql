-- Whether the batch is new whole, its epoch on record, and the producer locked: whatever follows writes nothing else. The first is NULL where
-- nobody numbers. ? first; producer, epoch, stream, producer, stream, digest.
SET @semel.first = ?;
SET @semel.own = (SELECT MAX(streams.next) FROM semel_ingest_producers AS producers JOIN semel_ingest_streams AS streams
ON streams.producer = producers.producer
WHERE producers.producer = ? AND producers.epoch = ? AND streams.stream = ?
AND streams.next = COALESCE(@semel.first, streams.next) AND @semel.locked IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM semel_ingest_digests WHERE producer = ? AND stream = ? AND digest = ?));
SELECT @semel.own
