SELECT id FROM orders WHERE sum(amount) > 3

SELECT id, sum(amount) AS s FROM orders

SELECT cust FROM orders GROUP BY cust, sum(amount)

SELECT cust, sum(max(amount)) AS x FROM orders GROUP BY cust

SELECT cust, amount + 1 AS a FROM orders GROUP BY cust, amount * 1

SELECT cust FROM orders GROUP BY 3

SELECT sum(day) AS s FROM orders

SELECT grouping(city) AS g FROM customer GROUP BY city

SELECT grouping(name) AS g FROM customer GROUP BY ROLLUP (city)

SELECT grouping_id(name) AS g FROM customer GROUP BY CUBE (city, name)

SELECT name, count(*) AS n FROM customer GROUP BY ROLLUP (city)

SELECT count(*) AS n FROM customer GROUP BY ROLLUP (city, uuid())

SELECT id FROM orders HAVING id > 3

SELECT cust, sum(amount) AS amount, max(amount) AS amount FROM orders GROUP BY cust HAVING amount > 3

SELECT cust, sum(amount) AS amount FROM orders o GROUP BY cust HAVING o.amount > 3

SELECT cust, (SELECT max(id) FROM customer) AS amount FROM orders GROUP BY cust HAVING amount > 3
