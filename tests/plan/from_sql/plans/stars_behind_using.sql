SELECT c.*, o.* EXCEPT (id) FROM orders o RIGHT JOIN customer c USING (id)
