-- Every row of the group, whichever of the two sums counts it.
SELECT l_shipmode, o.rid AS orders, l.rid AS lineitem
FROM orders o, lineitem l
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
  AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate AND year(l_receiptdate) = 1994
