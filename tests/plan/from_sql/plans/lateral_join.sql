SELECT o.id, x.q, y.s FROM orders o JOIN LATERAL (SELECT 1 AS q) x LEFT JOIN LATERAL (SELECT i.sku AS s FROM item i WHERE i.order_id = o.id) y
