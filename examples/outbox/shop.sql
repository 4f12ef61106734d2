-- The orders of the shop.
create table public.orders (order_id text primary key, item text, quantity integer);
