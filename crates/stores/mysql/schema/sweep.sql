-- Removes these as they were read. ? ids, ids with their revisions.
DELETE FROM semel_records WHERE id IN (?) AND CONCAT(id, revision) IN (?)
