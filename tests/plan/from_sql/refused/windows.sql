SELECT rank() OVER () AS r FROM orders

SELECT rank() AS r FROM orders

SELECT id FROM orders WHERE rank() OVER (ORDER BY id) = 1

SELECT id FROM orders QUALIFY id = 1

SELECT sum(amount) OVER w AS s FROM orders

SELECT sum(amount) OVER v AS s FROM orders WINDOW w AS (ORDER BY id)

SELECT sum(rank() OVER (ORDER BY id)) OVER (ORDER BY id) AS s FROM orders

SELECT rank() OVER (ORDER BY id ROWS 2 PRECEDING) AS r FROM orders
