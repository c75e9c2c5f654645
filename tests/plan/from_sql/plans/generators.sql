SELECT cust, posexplode_outer(collect_list(id)) AS (p, x) FROM orders GROUP BY cust HAVING count(*) > 1 ORDER BY x
