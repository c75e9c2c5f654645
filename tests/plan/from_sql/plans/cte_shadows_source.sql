WITH orders AS (SELECT * FROM orders WHERE amount > 1), t (c, a) AS (SELECT cust, amount FROM orders)
SELECT x.c, y.a FROM t x JOIN t y USING (c)
