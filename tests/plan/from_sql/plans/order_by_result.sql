SELECT DISTINCT cust, amount * 2 AS twice FROM orders ORDER BY coalesce(twice, 0) DESC, cust LIMIT 3
