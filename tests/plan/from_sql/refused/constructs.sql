SELECT id FROM orders TABLESAMPLE (10 PERCENT)

WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r

INSERT INTO x SELECT 1

SELECT id, cust FROM orders UNION SELECT id FROM customer

FROM orders |> WHERE id > 1

SELECT id FROM orders LIMIT 1 + 1

SELECT id FROM orders WHERE id > :p

SELECT id FROM orders LIMIT 3 OFFSET id

SELECT id FROM orders SORT BY id LIMIT 3

SELECT explode(array(1, 2)) + 1 AS x FROM orders

SELECT explode(array(1, 2)) AS x, explode(array(1, 2)) AS y FROM orders

SELECT explode(spec) AS x FROM item

SELECT explode(reverse(spec.tags)) FROM item

SELECT posexplode(spec.tags) AS x FROM item

SELECT explode(array(id)) AS x, rank() OVER (ORDER BY id) AS r FROM orders

SELECT stack(1, id) AS x FROM orders

SELECT x.k FROM orders o LATERAL VIEW inline(array(struct(1 AS k))) x

SELECT x.k FROM customer o LATERAL VIEW explode(name) x AS k

SELECT k FROM orders JOIN (VALUES (1), ('a')) AS v(k) ON k = id

SELECT k FROM orders JOIN (VALUES (1), (2, 3)) AS v(k) ON k = id

SELECT k FROM orders JOIN (VALUES (uuid())) AS v(k) ON true

SELECT o.id FROM orders o, range(3000000) r

SELECT o.id FROM orders o, range(o.id) r

SELECT * FROM orders PIVOT (first(amount) FOR cust IN (1, 2))

SELECT * FROM orders PIVOT (sum(amount) FOR cust IN (id))

SELECT * FROM orders PIVOT (max(day) AS d, count(*) AS n FOR cust IN (1, 2))

SELECT * FROM orders PIVOT (coalesce(sum(amount), 0) FOR cust IN (1, 2))

SELECT * FROM customer UNPIVOT (val FOR what IN (id, name))

SELECT o.id FROM orders o, explode(array(1)) e

SELECT id orders

SELECT ALL FROM orders

SELECT cust FROM orders GROUP BY

SELECT grouping_id() AS g FROM orders GROUP BY cust, ROLLUP()

SELECT id FROM orders EXCEPT VALUES (1)

SELECT id FROM orders LIMIT 1 BY id

SELECT id FROM orders ORDER BY id LIMIT 2 WITH TIES

SELECT id FROM orders LIMIT 10 PERCENT

SELECT id FROM orders LIMIT 5, 10

SELECT id FROM orders LIMIT 5, 10 BY id

SELECT id FROM orders UNION SELECT id FROM customer LIMIT 5, 10

VALUES (1), (2) LIMIT 5, 10

VALUES (1), (2) AS t(a) WHERE a > 1

SELECT id FROM orders UNION SELECT id FROM customer SORT BY id

SELECT id FROM orders UNION BY NAME SELECT id FROM customer

SELECT * FROM orders PIVOT (count(id) FOR cust IN (1, 2) GROUP BY cust)

SELECT * FROM orders PIVOT (count(id) FOR cust IN (1, 2) DEFAULT ON NULL (0))

SELECT id FROM orders WHERE explode(array(1)) = 1

SELECT group_concat(name) AS x FROM customer

SELECT id FROM orders WHERE (id, cust) IN (VALUES (1, 2))

SELECT i.sku, e.tag FROM item i, LATERAL explode(i.spec.tags) AS e(tag)

SELECT * FROM customer JOIN orders PIVOT (sum(amount) FOR cust IN (1, 2)) ON true

SELECT * FROM customer CROSS JOIN orders PIVOT (sum(amount) FOR cust IN (1, 2))
