-- The newest state of each order. `at` is the moment at which Tidetable accepted it, in epoch milliseconds.
CREATE TABLE IF NOT EXISTS orders (
    shop text NOT NULL,
    id text NOT NULL,
    at bigint NOT NULL,
    time timestamptz NOT NULL,
    customer text,
    total numeric(12, 2),
    data jsonb,
    ref text NOT NULL,
    PRIMARY KEY (shop, id)
);
CREATE INDEX IF NOT EXISTS orders_by_customer ON orders (customer, time);
