-- The next block is beyond block ?. Nothing is used of it (?), or as much as there is already.
INSERT INTO semel_tokens (block, used) VALUES (?, ?)
ON DUPLICATE KEY UPDATE used = GREATEST(semel_tokens.used, ?)
