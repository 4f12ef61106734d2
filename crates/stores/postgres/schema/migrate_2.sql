-- From format 1 to format 2, in one transaction: what the members of a request were. No row is written anew.
ALTER TABLE semel.records ADD COLUMN members bytea;
UPDATE semel.meta SET value = 2 WHERE name = 'format'
