SELECT id FROM orders WHERE

SELEC id FROM orders

SELECT id,
  amount FRM orders o x

SELECT 'id FROM orders

SELECT id FROM orders; SELECT 1

SELECT id, amount, FROM orders

SELECT id amount day FROM orders

SELECT id AS 'the id' FROM orders

SELECT id FROM orders WHERE id = = 1

SELECT id FROM orders WHERE (id = 1

SELECT id FROM orders WHERE id = 1)

SELECT id FROM orders WHERE id IN ()

SELECT id FROM orders, WHERE id = 1

SELECT id FROM orders ORDER id

SELECT id FROM orders LIMIT 10 ORDER BY id

SELECT id, CASE WHEN id = 1 THEN 2 FROM orders

SELECT cast(id AS numbr) AS x FROM orders

SELECT cast(id, string) AS x FROM orders

WITH a AS (SELECT id FROM orders), SELECT * FROM a

SELECT TOP 10 id FROM orders

SELECT id FROM orders FETCH FIRST 10 ROWS ONLY

SELECT id FROM {{ ref('orders') }}

SELECT * EXCLUDE (id) FROM orders

SELECT cust, sum(amount) OVER (PARTITION BY cust ORDER BY day ROWS 2 PRECEEDING) AS s FROM orders

SELECT id FROM orders WHERE NOT EXISTS SELECT 1 FROM customer

SELECT id FROM orders UNION ALL

SELECT id /* why FROM orders

SELECT count(*), limit FROM orders WHERE `limit > 3

SELECT id FROM orders WHERE cust = ?

SELECT id FROM orders WHERE id = 1 && amount > 2

EXPLAIN SELECT id FROM orders

SELECT id, rank() OVER (ORDER BY amount DSC) AS r FROM orders

SELECT id
FROM orders
WHERE amount > 10
  AND day >= DATE '2020-01-01
ORDER BY id

SELECT /*+ /*BROADCAST(bom) */ id FROM orders

WITH s AS (CREATE * FROM orders) SELECT * FROM s

SELECT count(*) AS n FROM orders GROUP BY window(day, '1 hour')
