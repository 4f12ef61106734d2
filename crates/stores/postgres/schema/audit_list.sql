-- One page, oldest first. $1 after, $2 tenant or NULL, $3 operation or NULL, $4 at most,
-- $5 at most so many are looked at: the last of them comes along unasked, since the next page begins behind it.
SELECT seq, at, who, reason, action, tenant, operation, key, was, became, place
FROM (
    SELECT *, row_number() OVER (ORDER BY seq) AS place
    FROM semel.audit
    WHERE seq > $1::bigint
    ORDER BY seq LIMIT $5::bigint
) AS ahead LEFT JOIN semel.scopes USING (scope)
WHERE place = $5::bigint
   OR ($2::text IS NULL OR tenant = $2::text) AND ($3::text IS NULL OR operation = $3::text)
ORDER BY seq LIMIT $4::bigint
