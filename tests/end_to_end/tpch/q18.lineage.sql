-- The lines that make an order large are the lines that are summed: once each, over either way.
SELECT o_orderkey, c.rid AS customer, o.rid AS orders, l.rid AS lineitem
FROM customer c, orders o, lineitem l
WHERE (SELECT sum(l_quantity) FROM lineitem WHERE l_orderkey = o_orderkey) > 300
  AND c_custkey = o_custkey AND o_orderkey = l_orderkey
