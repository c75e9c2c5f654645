SELECT what, val FROM orders UNPIVOT (val FOR what IN (id, cust AS c)) u WHERE amount > 1
