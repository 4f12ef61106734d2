-- The time that was fixed, and the first token that was drawn.
SELECT @semel.now, @semel.token
