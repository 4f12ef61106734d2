-- One page in the order of arrival.
-- $1 after, $2 tenant or NULL, $3 operation or NULL, $4 reasons or NULL, $5 at most,
-- $6 at most so many are looked at: the last of them comes along unasked, since the next page begins behind it.
SELECT seq, tenant, operation, key, reason, detail, transport, coordinates, since, payload, headers, id, place
FROM (
    SELECT *, row_number() OVER (ORDER BY seq) AS place
    FROM semel.parked
    WHERE seq > $1::bigint
    ORDER BY seq LIMIT $6::bigint
) AS ahead JOIN semel.scopes USING (scope)
WHERE place = $6::bigint
   OR ($2::text IS NULL OR tenant = $2::text) AND ($3::text IS NULL OR operation = $3::text)
  AND ($4::text[] IS NULL OR reason = ANY ($4::text[]))
ORDER BY seq LIMIT $5::bigint
