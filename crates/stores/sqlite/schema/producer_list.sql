SELECT p.producer, p.id, p.epoch, p.frozen, s.stream, s.target, s.next, s.confirmed, s.released
FROM semel_producers p JOIN semel_producer_streams s ON s.producer = p.producer
ORDER BY p.producer, s.stream
