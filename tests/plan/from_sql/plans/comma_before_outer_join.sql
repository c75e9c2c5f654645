SELECT c.name, o.id, i.sku FROM customer c, orders o RIGHT JOIN item i ON o.id = i.order_id WHERE c.id = o.cust
