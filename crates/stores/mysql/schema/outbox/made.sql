-- The rows that are locked, and then the format: all is made. ? the rows.
INSERT IGNORE INTO semel_outbox_places (slot, place) VALUES ?;
INSERT INTO semel_outbox_format (format) VALUES (1)
