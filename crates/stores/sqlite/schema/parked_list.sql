-- In the order of arrival. ?1 after, ?2 scope or NULL. The reasons are looked at by the caller.
SELECT seq, tenant, operation, key, reason, detail, transport, coordinates, since, payload,
       headers
FROM semel_parked JOIN semel_scopes USING (scope)
WHERE seq > ?1 AND (?2 IS NULL OR scope = ?2)
ORDER BY seq
