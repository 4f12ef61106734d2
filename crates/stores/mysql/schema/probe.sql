-- Which of these are there. ? ids.
SELECT id FROM semel_records FORCE INDEX (PRIMARY) WHERE id IN (?)
