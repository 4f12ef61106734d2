-- Whether there is an entry that equals this one in every field.
SELECT true FROM semel.audit
WHERE at = $1::bigint AND who = $2::text AND reason = $3::text AND action = $4::text
  AND scope IS NOT DISTINCT FROM $5::integer AND key IS NOT DISTINCT FROM $6::bytea
  AND was = $7::text AND became = $8::text
LIMIT 1
