SELECT n_name, c.rid AS customer, o.rid AS orders, l.rid AS lineitem, s.rid AS supplier, n.rid AS nation, r.rid AS region
FROM customer c, orders o, lineitem l, supplier s, nation n, region r
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA' AND year(o_orderdate) = 1994
