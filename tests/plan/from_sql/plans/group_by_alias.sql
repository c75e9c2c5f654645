SELECT year(day) AS y, max(amount) - min(amount) AS span, count(*)
FROM orders GROUP BY y HAVING span > 1 AND year(day) > 2000 ORDER BY sum(amount) DESC, y
