SELECT DISTINCT c.city, c.name AS who FROM customer c ORDER BY c.name DESC NULLS FIRST, city
