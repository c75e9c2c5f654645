-- One row for each country; orders without one count as '?;'.
CREATE MATERIALIZED VIEW IF NOT EXISTS by_country
  COMMENT 'Orders and amounts of each country'
  TBLPROPERTIES ('quality' = 'gold')
AS
WITH orders AS (
  SELECT coalesce(country, '?;') AS country, amount FROM orders
)
SELECT country, count(*) AS orders, sum(amount) AS amount
FROM orders
GROUP BY country;

CREATE MATERIALIZED VIEW at_home (customer STRING COMMENT 'who', amount DECIMAL(20, 2))
AS SELECT customer, sum(amount) AS amount FROM orders WHERE country = '${sales.country}' GROUP BY customer;
