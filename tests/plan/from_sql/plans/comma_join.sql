SELECT o.*, i.sku FROM orders o, customer c, item i
WHERE i.order_id = o.id AND o.cust = c.id AND qty > 3
ORDER BY qty DESC, 1 LIMIT 5
