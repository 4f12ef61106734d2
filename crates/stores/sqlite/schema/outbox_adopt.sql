-- Gives a stream to another relay, once nobody is at it. ?1 stream, ?2 relay, ?3 sink.
UPDATE semel_outbox_relays SET relay = ?2, sink = ?3 WHERE stream = ?1
