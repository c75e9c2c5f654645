SELECT o.id, (SELECT name FROM customer c WHERE c.id = o.cust) AS name,
       (SELECT max(qty) FROM item UNION SELECT 7 AS q FROM item) AS one
FROM orders o
