-- A new epoch. The row is locked until the commit. $1 producer, $2 id of one that is new.
INSERT INTO semel.producers AS own (producer, id, epoch) VALUES ($1::text, $2::text, 1)
ON CONFLICT (producer) DO UPDATE SET epoch = own.epoch + 1
RETURNING own.id, own.epoch, own.frozen
