-- One page, oldest first. $1 after, $2 scope or NULL, $3 at most.
SELECT seq, at, who, reason, action, tenant, operation, key, was, became
FROM semel.audit LEFT JOIN semel.scopes USING (scope)
WHERE seq > $1::bigint AND ($2::integer IS NULL OR scope = $2::integer)
ORDER BY seq LIMIT $3::bigint
