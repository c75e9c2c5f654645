SELECT id FROM orders o
WHERE id IN (SELECT order_id FROM item WHERE qty > amount OR sku = 'x') AND day IS NOT NULL
