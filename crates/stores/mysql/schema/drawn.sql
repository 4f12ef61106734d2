-- The time, the first token that was drawn, and the highest token that a removed record had.
SELECT @semel.now, @semel.token, (SELECT number FROM semel_meta WHERE name = 'floor')
