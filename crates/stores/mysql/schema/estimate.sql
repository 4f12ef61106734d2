-- Counts by state of the records with the lowest ids: all of them, those that count as absent, and the last id. ? how
-- many. Then the parked, the entities and the audit trail: ? and ? how many of each are counted: of more, it is the server's
-- own estimate.
SELECT state, COUNT(*),
       CAST(COALESCE(SUM(state IN (3, 4) AND due <= @semel.now
               AND at + CEIL(kept * 1000) + CEIL(TRUNCATE(kept / 8, 9) * 1000) + 1000 <= @semel.now), 0) AS UNSIGNED),
       MAX(id)
FROM (SELECT id, state, due, at, kept FROM semel_records ORDER BY id LIMIT ?) AS lowest GROUP BY state;
SELECT IF(counted < ?, counted, GREATEST(counted, COALESCE((
    SELECT table_rows FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'semel_parked'
), 0)))
FROM (SELECT COUNT(*) AS counted FROM (SELECT 1 FROM semel_parked LIMIT ?) AS some) AS count_of_some;
SELECT IF(counted < ?, counted, GREATEST(counted, COALESCE((
    SELECT table_rows FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'semel_entities'
), 0)))
FROM (SELECT COUNT(*) AS counted FROM (SELECT 1 FROM semel_entities LIMIT ?) AS some) AS count_of_some;
SELECT IF(counted < ?, counted, GREATEST(counted, COALESCE((
    SELECT table_rows FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'semel_audit'
), 0)))
FROM (SELECT COUNT(*) AS counted FROM (SELECT 1 FROM semel_audit LIMIT ?) AS some) AS count_of_some
