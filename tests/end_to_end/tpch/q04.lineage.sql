-- A semi join: the order, and every line that matches it.
SELECT o_orderpriority, o.rid AS orders, l.rid AS lineitem
FROM orders o, lineitem l
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
  AND l_orderkey = o_orderkey AND l_commitdate < l_receiptdate
