-- Removes messages that are dead. ? ids.
DELETE FROM semel_outbox WHERE id IN (?)
