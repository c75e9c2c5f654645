SELECT id, rank() OVER (ORDER BY amount) AS r, sum(amount) OVER w AS s, row_number() OVER (w) AS n,
  amount / sum(amount) OVER (PARTITION BY cust) * 100 AS share,
  avg(amount) OVER (PARTITION BY cust ORDER BY day ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving
FROM orders
WINDOW w AS (PARTITION BY cust ORDER BY day)
QUALIFY r < 10 AND max(amount) OVER (PARTITION BY year(day)) = amount
ORDER BY count(*) OVER (PARTITION BY year(day)), id
