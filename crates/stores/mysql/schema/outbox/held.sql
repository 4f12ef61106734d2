-- The leases of a process that are good now. ? stream, ? process.
SELECT part, token FROM semel_outbox_leases WHERE stream = ? AND holder = ? AND until > @semel.now
