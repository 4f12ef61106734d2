-- The format of the outbox; fails where there is none.
SELECT format FROM semel_outbox_format
