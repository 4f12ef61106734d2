-- The format of the journal of messages that others send; fails where there is none.
SELECT format FROM semel.ingest_format
