SELECT rank() OVER () AS r FROM orders

SELECT rank() AS r FROM orders

SELECT id FROM orders WHERE rank() OVER (ORDER BY id) = 1

SELECT id FROM orders QUALIFY id = 1

SELECT sum(amount) OVER w AS s FROM orders

SELECT sum(amount) OVER v AS s FROM orders WINDOW w AS (ORDER BY id)

SELECT sum(rank() OVER (ORDER BY id)) OVER (ORDER BY id) AS s FROM orders

SELECT rank() OVER (ORDER BY id ROWS 2 PRECEDING) AS r FROM orders

SELECT id, row_number() OVER (ORDER BY amount) AS amount FROM orders QUALIFY amount = 1

SELECT id, amount + row_number() OVER (ORDER BY id) AS amount FROM orders QUALIFY amount = 1

SELECT id, sum(cust) OVER w AS amount FROM orders QUALIFY amount = 1 WINDOW w AS (ORDER BY amount)

SELECT *, row_number() OVER (ORDER BY id) AS amount FROM orders QUALIFY amount = 1

SELECT id, cust AS q, amount AS q, row_number() OVER (ORDER BY id) AS rn FROM orders QUALIFY q = 1

SELECT cust AS id, row_number() OVER (ORDER BY day) AS rn FROM orders o QUALIFY EXISTS (SELECT 1 FROM item i WHERE i.order_id = id)

SELECT id, rank() OVER (ORDER BY day) AS r FROM orders QUALIFY row_number() OVER (ORDER BY r) = 1

SELECT cust, rank() OVER (ORDER BY sum(amount)) AS r FROM orders GROUP BY cust QUALIFY sum(amount) > 3
