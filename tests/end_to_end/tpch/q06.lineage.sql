SELECT rid AS lineitem FROM lineitem
WHERE year(l_shipdate) = 1994 AND l_discount IN (0.05, 0.06, 0.07) AND l_quantity < 24
