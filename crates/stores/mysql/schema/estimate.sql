-- Counts by state of the records with the lowest ids: all of them, those that count as absent, and the last id; the same of
-- what the index of states has besides the completed. ? how many. Then of the parked and of the entities, how many there
-- are, if they are fewer than ?, and the last of their ? lowest ids; and the audit trail, of which nothing is removed, by its
-- numbers.
SELECT state, COUNT(*),
       CAST(COALESCE(SUM(state IN (3, 4) AND due <= @semel.now
               AND at + CEIL(kept * 1000) + CEIL(TRUNCATE(kept / 8, 9) * 1000) + 1000 <= @semel.now), 0) AS UNSIGNED),
       MAX(id)
FROM (SELECT id, state, due, at, kept FROM semel_records ORDER BY id LIMIT ?) AS lowest GROUP BY state;
SELECT state, COUNT(*),
       CAST(COALESCE(SUM(state IN (3, 4) AND due <= @semel.now
               AND at + CEIL(kept * 1000) + CEIL(TRUNCATE(kept / 8, 9) * 1000) + 1000 <= @semel.now), 0) AS UNSIGNED),
       NULL
FROM (SELECT state, due, at, kept FROM semel_records FORCE INDEX (state) WHERE state < 3 OR state > 3 LIMIT ?) AS listed
GROUP BY state;
SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM semel_parked LIMIT ?) AS counted),
       (SELECT MAX(id) FROM (SELECT id FROM semel_parked ORDER BY id LIMIT ?) AS lowest);
SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM semel_entities LIMIT ?) AS counted),
       (SELECT MAX(id) FROM (SELECT id FROM semel_entities ORDER BY id LIMIT ?) AS lowest);
SELECT COALESCE((SELECT MAX(seq) FROM semel_audit) - (SELECT MIN(seq) FROM semel_audit) + 1, 0)
