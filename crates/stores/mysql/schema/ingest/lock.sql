-- Keeps others from changing anything of the producer until the commit. A row that is not there is not locked, even if it
-- is there a moment later, so that whatever writes asks whether it was. ? producer, producer.
SET @semel.locked = NULL;
SELECT 1 INTO @semel.locked FROM semel_ingest_producers WHERE producer = ? FOR UPDATE;
SELECT epoch, frozen FROM semel_ingest_producers WHERE producer = ?
