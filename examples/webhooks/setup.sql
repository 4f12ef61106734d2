-- Deliberately without a unique key: that an event is stored once is left to the records.
create table if not exists received (
    queue text not null,
    event text not null,
    action text,
    delivery text not null
);
