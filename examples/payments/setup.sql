-- Deliberately without a unique key: that a payment is charged once is left to the records.
create table if not exists charges (
    payment_intent text not null,
    amount integer not null,
    currency text not null
);
