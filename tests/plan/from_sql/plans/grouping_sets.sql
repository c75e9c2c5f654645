SELECT cust, year(day) AS year, sum(cust) AS s, grouping(cust) AS g, grouping_id() AS i,
  rank() OVER (PARTITION BY grouping(cust) + grouping(year(day)) ORDER BY sum(amount)) AS place
FROM orders GROUP BY cust, ROLLUP (year(day)), GROUPING SETS ((cust), ())
HAVING grouping(year(day)) = 1 OR count(*) > 1
