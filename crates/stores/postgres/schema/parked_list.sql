-- One page in the order of arrival. $1 after, $2 scope or NULL, $3 reasons or NULL, $4 at most.
SELECT seq, tenant, operation, key, reason, detail, transport, coordinates, since, payload, headers, id
FROM semel.parked JOIN semel.scopes USING (scope)
WHERE seq > $1::bigint AND ($2::integer IS NULL OR scope = $2::integer)
  AND ($3::text[] IS NULL OR reason = ANY ($3::text[]))
ORDER BY seq LIMIT $4::bigint
