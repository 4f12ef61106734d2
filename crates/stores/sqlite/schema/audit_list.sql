-- Oldest first. ?1 after. The caller filters them.
SELECT seq, at, who, reason, action, tenant, operation, key, was, became
FROM semel_audit LEFT JOIN semel_scopes USING (scope)
WHERE seq > ?1
ORDER BY seq
