-- The time that was fixed, the first token that was drawn, the highest token that a removed record had, and the
-- time by now (? as in now.sql).
SELECT @semel.now, @semel.token, (SELECT number FROM semel_meta WHERE name = 'floor'),
COALESCE(?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000)
