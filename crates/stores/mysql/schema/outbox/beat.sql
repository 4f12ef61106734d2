-- Says that a process is there. ? stream, ? process, ? stream, ? process, ? milliseconds.
DELETE FROM semel_outbox_processes WHERE stream = ? AND until <= @semel.now AND process <> ?;
INSERT INTO semel_outbox_processes (stream, process, until) VALUES (?, ?, @semel.now + ?)
ON DUPLICATE KEY UPDATE until = VALUES(until)
