-- A message in the transaction of a user, who may need no right to read it. ? stream, ? order key, ? headers, ? payload.
INSERT INTO semel_outbox (id, stream, order_key, headers, payload) VALUES (@semel.id, ?, ?, ?, ?);
SELECT @semel.id
