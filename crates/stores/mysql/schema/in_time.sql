-- Fails, with two rows where one may be, if what was inserted had to wait and comes too late: the time by now (? as in
-- now.sql) is beyond ?, or a removed record had a token as high as the first that was drawn. So its transaction never
-- commits, and nobody sees a claim that is not one.
SELECT (SELECT name FROM semel_meta WHERE name IN ('import', 'admit')
AND (COALESCE(?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000) > ?
OR (SELECT number FROM semel_meta WHERE name = 'floor') >= @semel.token))
