-- Locks the row of a producer until the commit, and makes it where there is none. $1 producer.
INSERT INTO semel.ingest_producers AS own (producer, epoch) VALUES ($1::text, 0)
ON CONFLICT (producer) DO UPDATE SET epoch = own.epoch
RETURNING own.epoch, own.frozen
