-- Gives a stream to another relay, once nobody is at it. ? relay, ? sink, ? stream.
UPDATE semel_outbox_relays SET relay = ?, sink = ? WHERE stream = ?
