SELECT c_custkey, c.rid AS customer, o.rid AS orders, l.rid AS lineitem, n.rid AS nation
FROM customer c, orders o, lineitem l, nation n
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01'
  AND l_returnflag = 'R' AND c_nationkey = n_nationkey
