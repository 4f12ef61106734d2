-- The format of the journal; no row where its making broke off.
SELECT format FROM semel_ingest_format
