SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount DESC) AS p, first(amount) IGNORE NULLS AS f,
  max_by(id, amount) AS m, any(id > 1) AS a, count(DISTINCT id, cust) FILTER (WHERE amount > 1) AS c FROM orders
