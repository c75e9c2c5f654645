SELECT o.id, c.id AS customer_id
FROM orders o
LEFT JOIN customer c ON o.cust = c.id AND c.id IN (SELECT qty FROM item) AND o.amount > (SELECT min(qty) FROM item)
JOIN item i ON i.order_id = o.id AND EXISTS (SELECT 1 FROM item j WHERE j.sku = i.sku)
