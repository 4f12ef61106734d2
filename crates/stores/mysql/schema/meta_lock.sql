-- One at a time. ? what.
SELECT number FROM semel_meta WHERE name = ? FOR UPDATE
