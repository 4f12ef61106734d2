-- A new epoch. ?1 producer, ?2 id of one that is new.
INSERT INTO semel_producers (producer, id, epoch) VALUES (?1, ?2, 1)
ON CONFLICT (producer) DO UPDATE SET epoch = epoch + 1
RETURNING id, epoch, frozen
