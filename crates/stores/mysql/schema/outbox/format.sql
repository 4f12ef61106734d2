-- The format of the outbox; nothing where its making broke off, and it fails where there is none.
SELECT format FROM semel_outbox_format
