-- In the order of arrival. ?1 after. The caller filters them.
SELECT seq, tenant, operation, key, reason, detail, transport, coordinates, since, payload,
       headers
FROM semel_parked JOIN semel_scopes USING (scope)
WHERE seq > ?1
ORDER BY seq
