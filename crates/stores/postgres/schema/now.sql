-- The time, and as many fencing tokens as are asked for.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       ARRAY(SELECT nextval('semel.token') FROM generate_series(1, $1::bigint))
