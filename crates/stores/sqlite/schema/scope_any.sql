-- Whether a scope is stored. ?1 its tenant or NULL, ?2 its operation or NULL.
SELECT EXISTS (
    SELECT 1 FROM semel_scopes
    WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR operation = ?2)
)
