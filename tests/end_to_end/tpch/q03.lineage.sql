SELECT l_orderkey, c.rid AS customer, o.rid AS orders, l.rid AS lineitem
FROM customer c, orders o, lineitem l
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
