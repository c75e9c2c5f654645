SELECT * FROM (SELECT cust, id, amount FROM orders) PIVOT (sum(amount) AS s, count(*) FOR cust IN (1, 2 AS two)) p
