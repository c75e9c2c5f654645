SELECT l.rid AS lineitem, p.rid AS part
FROM lineitem l, part p
WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'
