SELECT /*+ BROADCAST(c), REPARTITION(3) */ i.order_id, tag, e.n, p.pos, p.col
FROM item i JOIN (orders o JOIN customer c ON o.cust = c.id) ON i.order_id = o.id
LATERAL VIEW explode(spec.tags) AS tag
LATERAL VIEW OUTER explode(split(c.name, ',')) e AS n
LATERAL VIEW posexplode(array(e.n, city)) p
WHERE n IS NOT NULL AND o.id > 1
DISTRIBUTE BY tag SORT BY pos DESC
