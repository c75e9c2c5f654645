SELECT o.id -- the order
     , o.amount /* in cents */ * 100 AS `cents; of it`
FROM orders o WHERE day >= DATE '2020-01-01'   -- since
  AND NOT (cust = 1 AND id = 2)
