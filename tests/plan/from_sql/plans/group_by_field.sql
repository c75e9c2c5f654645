SELECT spec.size, item.spec.size + 1 AS larger, sum(qty) AS s FROM item GROUP BY item.spec.size HAVING spec.size > 1 ORDER BY spec.size
