-- The end of what is new in a stream: a look whether there may be something to publish, at one entry of an index.
-- ? stream.
SELECT place FROM semel_outbox FORCE INDEX (pending) WHERE stream = ? AND sent_at IS NULL AND due_at IS NULL
ORDER BY place DESC LIMIT 1
