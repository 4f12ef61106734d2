-- Blocks of tokens, with how many of each may be used (? rows). What a rollback takes back is not given again.
INSERT INTO semel_tokens (used) VALUES ?;
SET @semel.token = LAST_INSERT_ID() * 1024
