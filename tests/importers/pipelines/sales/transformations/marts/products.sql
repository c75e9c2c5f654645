CREATE MATERIALIZED VIEW products PARTITIONED BY (product) AS
SELECT sum(i.quantity) AS quantity, collect_set(b.country) AS countries, i.product -- partitions come last
FROM spark_catalog.default.by_country b
JOIN orders o ON coalesce(o.country, '?;') = b.country
JOIN items i ON i.order_id = o.id
GROUP BY i.product;

CREATE MATERIALIZED VIEW best AS
SELECT default.products.product, quantity FROM default.products
WHERE quantity IS NOT NULL
ORDER BY quantity DESC, product LIMIT ${sales.most}
