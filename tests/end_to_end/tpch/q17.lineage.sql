-- A small line brings all lines of its part with it: they are the group of the average it is compared with.
SELECT l.rid AS lineitem, p.rid AS part
FROM lineitem small, part p, lineitem l
WHERE p_partkey = small.l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
  AND small.l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)
  AND l.l_partkey = p_partkey
