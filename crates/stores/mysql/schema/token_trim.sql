-- Blocks far behind the newest tell nothing any more.
DELETE FROM semel_tokens WHERE block < ? ORDER BY block LIMIT 4096
