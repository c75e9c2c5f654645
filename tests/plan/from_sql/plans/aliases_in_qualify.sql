SELECT id AS cust, -amount AS amount, row_number() OVER (ORDER BY id) AS rn
FROM orders o
QUALIFY amount < 3 AND o.amount > 1 AND cust = 2 AND day IS NOT NULL AND rank() OVER (PARTITION BY cust ORDER BY amount) = 1
