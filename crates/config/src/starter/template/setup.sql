create table charges (
    payment text not null,
    amount integer not null,
    currency text not null
);
