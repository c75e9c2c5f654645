SELECT o.id, o.cust NOT IN (SELECT id FROM customer WHERE city = 'x') AS m,
       CASE WHEN EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.id AND i.sku = 'a') THEN 'yes' ELSE 'no' END AS has_a
FROM orders o
WHERE o.amount > 3 OR o.cust IN (SELECT id FROM customer) OR EXISTS (SELECT 1 FROM item i WHERE i.qty > o.amount)
