SELECT id FROM orders WHERE id IN (SELECT sku FROM item)

SELECT id FROM orders WHERE id IN (SELECT order_id, qty FROM item)

SELECT id, id = 1 OR (id, cust) IN (SELECT order_id FROM item) AS m FROM orders

SELECT (SELECT max(qty), min(qty) FROM item) AS q FROM orders

SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM item i WHERE EXISTS (SELECT 1 FROM customer c WHERE c.id = o.cust))

SELECT (SELECT max(i.qty) FROM item i WHERE i.qty = (SELECT max(c.id) FROM customer c WHERE c.id = o.id)) AS q FROM orders o

SELECT (SELECT max(i.qty + o.id) FROM item i WHERE i.order_id = o.id) AS q FROM orders o

SELECT (SELECT max(i.qty) + o.id FROM item i WHERE i.order_id = o.id) AS q FROM orders o

SELECT cust, (SELECT max(i.qty) FROM item i WHERE i.order_id = o.cust) AS q FROM orders o GROUP BY cust

SELECT t.id FROM orders t WHERE t.id = ANY (SELECT id FROM customer)

SELECT t.id FROM orders t WHERE t.id > ALL (SELECT id FROM customer)

SELECT id, EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.nope) AS m FROM orders o

SELECT id FROM orders o WHERE EXISTS (SELECT i.nope FROM item i WHERE i.order_id = o.id)

SELECT id, EXISTS (SELECT count(*) FROM item i WHERE i.order_id = o.id HAVING count(*) > o.nope) AS m FROM orders o

SELECT o.id, c.id AS i2 FROM orders o LEFT JOIN customer c ON o.cust = c.id AND o.id IN (SELECT order_id FROM item)

SELECT o.id, c.id AS i2 FROM orders o FULL JOIN customer c ON o.cust = c.id AND o.id IN (SELECT order_id FROM item)

SELECT o.id, c.id AS i2 FROM orders o JOIN customer c ON EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.id AND i.qty = c.id)

SELECT o.id, c.id AS i2 FROM orders o JOIN customer c ON o.id < (SELECT max(i.qty) FROM item i WHERE i.order_id = o.id)

SELECT id, (SELECT collect_list(sku) FROM (SELECT * FROM item ORDER BY qty) i WHERE i.order_id = o.id) AS l FROM orders o

SELECT id, (SELECT first(sku) FROM (SELECT * FROM item ORDER BY qty LIMIT 3) i WHERE i.order_id = o.id) AS l FROM orders o
