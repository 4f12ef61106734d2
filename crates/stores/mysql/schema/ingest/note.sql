-- A digest, which is the last now. ? producer, stream; producer, stream, digest.
SET @semel.place = (SELECT COALESCE(MAX(place), 0) + 1 FROM semel_ingest_digests WHERE producer = ? AND stream = ?);
INSERT INTO semel_ingest_digests (producer, stream, digest, place)
SELECT ?, ?, ?, @semel.place FROM DUAL WHERE @semel.own IS NOT NULL
