/* Both files are delivered every night.
   The first has a header. */
CREATE TEMPORARY VIEW orders AS
SELECT
  CAST(_c0 AS INT) AS id,
  _c1 AS customer,
  _c2 AS country,          -- may be missing
  CAST(_c3 AS DECIMAL(10, 2)) AS amount,
  CAST(_c4 AS DATE) AS ordered
FROM csv.`data/orders.csv`
WHERE _c0 <> 'id';

CREATE TEMPORARY VIEW items AS -- no header in this one
SELECT CAST(_c0 AS INT) AS id, CAST(_c1 AS INT) AS order_id, _c2 AS product, CAST(_c3 AS INT) AS quantity
FROM csv.`data/items.csv`; -- the end of staging
