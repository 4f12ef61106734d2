-- A new epoch. The row is locked until the commit. ? producer, id of one that is new.
INSERT INTO semel_producers (producer, id, epoch) VALUES (?, ?, 1) ON DUPLICATE KEY UPDATE epoch = epoch + 1
