SELECT l.rid AS lineitem, p.rid AS part
FROM lineitem l
JOIN part p ON p_partkey = l_partkey
JOIN (VALUES ('Brand#12', 'SM', ['CASE', 'BOX', 'PACK', 'PKG'], 1, 5),
  ('Brand#23', 'MED', ['BAG', 'BOX', 'PKG', 'PACK'], 10, 10),
  ('Brand#34', 'LG', ['CASE', 'BOX', 'PACK', 'PKG'], 20, 15)) kinds(brand, size, containers, quantity, largest)
  ON p_brand = brand AND split_part(p_container, ' ', 1) = size AND split_part(p_container, ' ', 2) IN containers
  AND l_quantity BETWEEN quantity AND quantity + 10 AND p_size BETWEEN 1 AND largest
WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON'
