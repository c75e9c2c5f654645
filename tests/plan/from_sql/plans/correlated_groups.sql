SELECT o.id, (SELECT count(*) FROM item i WHERE i.qty < o.amount) AS smaller
FROM orders o
WHERE EXISTS (SELECT i.sku FROM item i WHERE i.order_id = o.id GROUP BY i.sku HAVING count(*) > 1)
