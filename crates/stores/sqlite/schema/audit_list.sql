-- One page, oldest first. ?1 after, ?2 scope or NULL, ?3 at most.
SELECT seq, at, who, reason, action, tenant, operation, key, was, became
FROM semel_audit LEFT JOIN semel_scopes USING (scope)
WHERE seq > ?1 AND (?2 IS NULL OR scope = ?2)
ORDER BY seq LIMIT ?3
