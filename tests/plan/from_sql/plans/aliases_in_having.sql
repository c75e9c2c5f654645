SELECT cust, -sum(amount) AS amount, max(day) AS id
FROM orders GROUP BY cust
HAVING abs(amount) > 10 AND max(amount) > 3 AND id > DATE '2020-01-01' AND cust > 1
