-- Changes nothing, but nobody draws a token until the transaction ends.
ALTER SEQUENCE semel.token CACHE 1
