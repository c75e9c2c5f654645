SELECT l_returnflag, l_linestatus, rid AS lineitem FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'
