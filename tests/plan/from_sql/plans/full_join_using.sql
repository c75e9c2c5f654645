SELECT *, c.id AS left_id FROM customer c FULL JOIN (SELECT cust AS id, count(*) AS n FROM orders GROUP BY 1) k USING (id)
