-- Without a unique key, so that it would show what happens twice.
create table public.orders (order_id text, customer text, amount bigint, currency text);
