-- Locks the row of the producer until the commit, and finds out whether messages of the stream wait for another place:
-- whatever follows writes nothing then. ? producer, id of one that is new, producer, stream, target.
INSERT INTO semel_producers (producer, id, epoch) VALUES (?, ?, 0) ON DUPLICATE KEY UPDATE epoch = epoch;
SET @semel.elsewhere = (SELECT COUNT(*) FROM semel_producer_streams
WHERE producer = ? AND stream = ? AND target <> ? AND next - 1 > confirmed);
SELECT @semel.elsewhere
