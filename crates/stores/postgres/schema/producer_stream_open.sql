-- The stream of an opening; no row where messages wait for another place. $1 producer, $2 stream, $3 target.
INSERT INTO semel.producer_streams AS own (producer, stream, target) VALUES ($1::text, $2::text, $3::text)
ON CONFLICT (producer, stream) DO UPDATE SET target = excluded.target
    WHERE own.target = excluded.target OR own.next - 1 <= own.confirmed
RETURNING own.next, own.confirmed, own.released
