-- The next sequence of a stream, if there is one, and whether a digest is remembered; asked behind the lock, in a statement
-- of its own. $1 producer, $2 stream, $3 digest or NULL.
SELECT (SELECT next FROM semel.ingest_streams WHERE producer = $1::text AND stream = $2::text),
       EXISTS (SELECT FROM semel.ingest_digests WHERE producer = $1 AND stream = $2 AND digest = $3::bytea)
