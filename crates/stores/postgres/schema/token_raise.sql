-- Gives out no token up to $1 from here on; a row if that changes anything.
SELECT setval('semel.token', $1::bigint) FROM semel.token
WHERE $1::bigint > CASE WHEN is_called THEN last_value ELSE 0 END
