-- Changes nothing, but wants every right that the store will want. Rolled back, also where it could not be
-- refused any more.
START TRANSACTION;
UPDATE semel_meta SET number = number WHERE name = '';
INSERT INTO semel_meta SELECT * FROM semel_meta WHERE name = '';
DELETE FROM semel_tokens WHERE block = 0;
INSERT INTO semel_tokens SELECT * FROM semel_tokens WHERE block = 0;
UPDATE semel_tokens SET used = used WHERE block = 0;
UPDATE semel_records SET revision = revision WHERE id = '';
INSERT INTO semel_records SELECT * FROM semel_records WHERE id = '';
DELETE FROM semel_records WHERE id = '';
UPDATE semel_entities SET applied = applied WHERE id = '';
INSERT INTO semel_entities SELECT * FROM semel_entities WHERE id = '';
DELETE FROM semel_entities WHERE id = '';
INSERT INTO semel_parked SELECT * FROM semel_parked WHERE seq = 0;
UPDATE semel_parked SET since = since WHERE seq = 0;
DELETE FROM semel_parked WHERE seq = 0;
INSERT INTO semel_audit SELECT * FROM semel_audit WHERE seq = 0;
INSERT INTO semel_marks SELECT * FROM semel_marks WHERE name = '';
UPDATE semel_marks SET value = value WHERE name = '';
ROLLBACK
