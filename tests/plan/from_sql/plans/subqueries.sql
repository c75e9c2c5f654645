SELECT o.id, (SELECT count(*) FROM item i WHERE i.order_id = o.id AND i.sku <> 'x') AS n
FROM orders o
WHERE EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.id AND i.qty > o.amount)
  AND cust NOT IN (SELECT id FROM customer WHERE city = 'x')
  AND amount > (SELECT avg(amount) * 2 FROM orders)
