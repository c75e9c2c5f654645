SELECT o.id FROM orders o JOIN customer c ON

SELECT o.id FROM orders o JOIN customer c ON WHERE o.id = 1

SELECT o.id FROM orders o JOIN customer c ON JOIN customer d ON d.id = 1

SELECT * FROM (SELECT o.id FROM orders o JOIN customer c ON) x

SELECT o.id FROM orders o JOIN customer c ON ORDER BY o.id

SELECT o.id FROM orders o JOIN customer c ON UNION SELECT id FROM customer

SELECT o.id FROM orders o JOIN customer c USING ()

SELECT o.id FROM orders o JOIN customer c USING

SELECT o.id FROM orders o JOIN customer c USING id

SELECT o.id FROM orders o JOIN customer c USING (id,)

SELECT o.id FROM orders o, JOIN customer c

SELECT sum(amount) OVER AS x FROM orders

SELECT sum(amount) OVER FROM orders

SELECT id FROM orders ORDER BY id UNION SELECT id FROM customer

SELECT id FROM orders LIMIT 1 UNION SELECT id FROM customer

SELECT id FROM orders ORDER BY id INTERSECT SELECT id FROM customer

SELECT id FROM orders SORT BY id UNION SELECT id FROM customer

SELECT id FROM orders CLUSTER BY id UNION SELECT id FROM customer

SELECT id FROM "orders"

SELECT id FROM 'orders'

SELECT o.id FROM orders o JOIN "customer" c ON c.id = o.id

SELECT id FROM orders "o"

SELECT id IN AS x FROM orders

SELECT id FROM orders WHERE id IN

SELECT id FROM orders WHERE id IN cust

SELECT id, row_number() OVER (PARTITION BY ORDER BY id) AS r FROM orders

SELECT id FROM orders WHERE id NOT NULL

SELECT id FROM orders WHERE id IS 1

SELECT id FROM orders WHERE id ISNULL

SELECT id FROM orders WHERE id NOTNULL

SELECT [id] AS x FROM orders

SELECT id ->> 'a' AS x FROM orders

SELECT id -> 'a' AS x FROM orders

SELECT id FROM orders WHERE id IN id

SELECT id FROM orders WHERE id GLOB 'a*'

SELECT id FROM orders WHERE id SIMILAR TO 'a*'

SELECT sum(amount ORDER BY id) AS s FROM orders

SELECT array_agg(amount LIMIT 1) AS s FROM orders

SELECT sum(amount) OVER w AS s FROM orders WINDOW w AS

SELECT orders.* FROM orders *

SELECT () AS x FROM orders

SELECT id FROM orders LATERAL VIEW explode(array(id))

WITH a AS MATERIALIZED (SELECT id FROM orders) SELECT * FROM a

SELECT id FROM orders ORDER BY id ASC DESC

SELECT CAST(id AS int FORMAT 'x') AS x FROM orders

SELECT [1, 2] AS x FROM orders

SELECT id FROM orders o JOIN customer c ON o.id = c.id USING (id)

SELECT count(DISTINCT) AS x FROM orders

SELECT x -> x + 1 AS y FROM orders
