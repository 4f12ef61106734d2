-- Removes messages that are dead. ? ids.
DELETE message FROM semel_outbox AS message FORCE INDEX (PRIMARY) WHERE message.id IN (?)
