INSERT INTO semel.audit (at, who, reason, action, scope, key, was, became)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::bytea[],
                     $7::text[], $8::text[])
