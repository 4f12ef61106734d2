-- The epoch of a producer that sends here. ?1 producer, ?2 id of one that is new, ?3 epoch.
INSERT INTO semel_producers (producer, id, epoch) VALUES (?1, ?2, ?3)
ON CONFLICT (producer) DO UPDATE SET epoch = max(epoch, excluded.epoch)
