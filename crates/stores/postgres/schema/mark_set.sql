INSERT INTO semel.marks (name, value) VALUES ($1::text, $2::bigint)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
