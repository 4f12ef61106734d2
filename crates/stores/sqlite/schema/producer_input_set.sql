-- The input that is used last has the last place. ?1 producer, ?2 stream, ?3 digest, ?4 rows, ?5 bytes, ?6 whole.
INSERT OR REPLACE INTO semel_producer_inputs (producer, stream, digest, read, bytes, whole)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
