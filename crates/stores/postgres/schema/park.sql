-- Keeps messages that are not kept yet; answers with their ids. $1 when, or NULL for now.
INSERT INTO semel.parked (since, id, scope, key, reason, detail, transport, coordinates, headers, payload)
SELECT coalesce(since, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
       id, scope, key, reason, detail, transport, coordinates, headers, payload
FROM unnest($1::bigint[], $2::bytea[], $3::integer[], $4::bytea[], $5::text[], $6::text[], $7::bytea[],
            $8::text[], $9::bytea[], $10::bytea[])
     WITH ORDINALITY
     AS asked (since, id, scope, key, reason, detail, transport, coordinates, headers, payload, n)
ORDER BY n
ON CONFLICT (id) DO NOTHING
RETURNING id
