-- The store's clock, or the time that a test hands in (? or NULL). A statement of its own that waits for
-- nothing, so that the time at its start is the time; UTC, so that no time zone has a say.
SET @semel.now = COALESCE(?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000)
