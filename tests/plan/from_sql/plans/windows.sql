SELECT cust, sum(amount) AS s, rank() OVER w AS r, sum(sum(amount)) OVER w / 2 AS half
FROM orders GROUP BY cust, year(day) QUALIFY r <= 3
WINDOW w AS (PARTITION BY year(day) ORDER BY sum(amount) DESC)
