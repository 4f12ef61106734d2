-- Where the messages of a stream go, and how many wait. $1 producer, $2 stream.
SELECT target, next - 1 - confirmed FROM semel.producer_streams WHERE producer = $1::text AND stream = $2::text
