-- The newest state of each order: the state with the greatest `sequence`. It has digits only, so every collation orders it.
CREATE TABLE IF NOT EXISTS orders (
    shop text NOT NULL,
    time timestamptz NOT NULL,
    id text NOT NULL,
    sequence text NOT NULL,
    customer text,
    total numeric(12, 2),
    data jsonb,
    ref text NOT NULL,
    PRIMARY KEY (shop, time, id)
);
CREATE INDEX IF NOT EXISTS orders_by_customer ON orders (customer, time);
