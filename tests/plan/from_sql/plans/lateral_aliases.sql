SELECT cust + 1 AS next, next * 2, sum(amount) AS total, total / count(*), CASE WHEN total > 2 THEN 'x' END AS big
FROM orders GROUP BY next HAVING big = 'x' ORDER BY big
