-- The number of a scope, which is stored if it is not yet. No row: another transaction stores it.
WITH fresh AS (
    INSERT INTO semel.scopes (tenant, operation)
    SELECT $1::text, $2::text
    WHERE NOT EXISTS (SELECT FROM semel.scopes WHERE tenant = $1::text AND operation = $2::text)
    ON CONFLICT (tenant, operation) DO NOTHING
    RETURNING scope
)
SELECT scope FROM fresh
UNION ALL
SELECT scope FROM semel.scopes WHERE tenant = $1::text AND operation = $2::text
