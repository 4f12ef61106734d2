-- Without a unique key, so that it would show what happens twice.
create table orders (order_id text, customer text, amount bigint, currency text);
