-- Ends the making of the tables: after it they are a store.
START TRANSACTION;
INSERT INTO semel_tokens (block, used) VALUES (1, 0) ON DUPLICATE KEY UPDATE used = semel_tokens.used;
INSERT INTO semel_meta (name, number) VALUES ('floor', 0), ('import', 0), ('admit', 0), ('format', 2)
ON DUPLICATE KEY UPDATE number = semel_meta.number;
COMMIT
