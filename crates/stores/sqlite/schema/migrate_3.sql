-- From format 2 to format 3, in one transaction: what the members of a request were. No row is written anew.
ALTER TABLE semel_records ADD COLUMN members BLOB;

UPDATE semel_meta SET value = 3 WHERE name = 'format';
