-- The format of the journal of producers; fails where there is none.
SELECT format FROM semel.producer_format
