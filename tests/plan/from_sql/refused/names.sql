SELECT o.amnt FROM orders o

SELECT amount,
       nme
FROM customer

SELECT id FROM orders o JOIN customer c ON o.cust = c.id

SELECT x.id FROM orders o

SELECT id FROM ordes

SELECT id FROM shop.orders

SELECT summ(amount) AS x FROM orders

SELECT o.id, o.id FROM orders o

SELECT id + rand() FROM orders

SELECT id AS _rid FROM orders

SELECT * FROM (SELECT id, id + rand() FROM orders) q

SELECT id + 1 AS x, sum(x) OVER () AS y FROM orders

SELECT id AS x, cust AS x, x + 1 AS y FROM orders

SELECT uuid() AS x, x AS y FROM orders

SELECT cust AS x, x + 1 AS y, count(*) AS n FROM orders GROUP BY cust, y

SELECT * FROM orders o JOIN customer c USING (idd)

SELECT id FROM orders o WHERE EXISTS (SELECT nope FROM item i WHERE i.order_id = o.id)

SELECT id, amount * 2 AS twice FROM orders WHERE twice > 3

SELECT id FROM orders JOIN customer

SELECT orders.id FROM orders o

SELECT c.name, x.amount FROM orders o JOIN customer c ON o.cust = c.id

SELECT cust, sum(amount) AS total FROM orders GROUP BY cust HAVING totl > 3

SELECT cust, sum(amount) AS total FROM orders GROUP BY cust ORDER BY totl

SELECT "id" FROM orders

SELECT * FROM orders o JOIN customer c ON o.cust = c.id

SELECT spec.* FROM item

SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM customer c WHERE c.id = o.custt)

SELECT +id FROM orders

SELECT coalesce(cust, +1) FROM orders
