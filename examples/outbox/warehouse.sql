-- Without a unique key, so that it would show what happens twice.
create table public.shipments (order_id text, item text, quantity integer);
