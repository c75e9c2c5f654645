SELECT * FROM orders ORDER BY id DESC NULLS LAST

SELECT o.*, c.name FROM orders o LEFT JOIN customer c ON o.cust = c.id ORDER BY o.id, c.name

SELECT * FROM orders o JOIN customer USING (id) ORDER BY id

SELECT * FROM customer NATURAL FULL OUTER JOIN (SELECT id, count(*) AS n FROM orders GROUP BY id) k ORDER BY id, n

SELECT k.id, customer.id AS cid, id AS d FROM customer RIGHT JOIN (SELECT cust AS id FROM orders) k USING (id)

SELECT c.name, o.id, i.sku FROM customer c, orders o RIGHT JOIN item i ON o.id = i.order_id WHERE c.id = o.cust

SELECT city, count(*), sum(amount), max(day) AS d FROM orders o JOIN customer c ON o.cust = c.id GROUP BY city

SELECT year(day) AS y, avg(amount) AS a FROM orders GROUP BY y HAVING a > 1 ORDER BY y

SELECT cust AS id, sum(id) AS s FROM orders GROUP BY id, cust

SELECT id FROM orders WHERE cust IN (SELECT id FROM customer WHERE city = 'x')

SELECT id FROM orders WHERE cust NOT IN (SELECT id FROM customer)

SELECT id FROM orders WHERE cust NOT IN (SELECT id FROM customer WHERE id IS NOT NULL)

SELECT id FROM orders o WHERE id NOT IN (SELECT order_id FROM item i WHERE i.qty > o.amount)

SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.id)

SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.id AND i.qty > 1 OR i.sku = 'zz')

SELECT id, (SELECT count(*) FROM item i WHERE i.order_id = o.id) AS n, (SELECT max(qty) - 1 FROM item i WHERE i.order_id = o.id) AS m FROM orders o ORDER BY id

SELECT id FROM orders WHERE amount > (SELECT avg(qty) FROM item) OR id = 1

SELECT cust, count(*) AS n FROM orders GROUP BY cust HAVING count(*) >= (SELECT min(qty) FROM item) AND cust IN (SELECT id FROM customer)

SELECT id, rank() OVER (PARTITION BY cust ORDER BY amount DESC) AS r FROM orders

SELECT cust, sum(amount) AS s, sum(sum(amount)) OVER (ORDER BY cust) AS run FROM orders GROUP BY cust

SELECT id, sum(qty) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s, count(*) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM orders JOIN item ON id = order_id AND sku <> 'b' QUALIFY n > 1

SELECT id, row_number() OVER w AS n FROM orders WINDOW w AS (PARTITION BY year(day) ORDER BY id) ORDER BY n, id

SELECT id FROM orders UNION SELECT id FROM customer UNION ALL SELECT qty FROM item ORDER BY id

SELECT id, cust FROM orders INTERSECT SELECT id, id FROM customer

SELECT sku FROM item EXCEPT ALL SELECT city FROM customer

SELECT sku FROM item WHERE qty > 1 EXCEPT SELECT 'a' FROM item

WITH t AS (SELECT * FROM orders WHERE amount > 1), u (c, n) AS (SELECT cust, count(*) FROM t GROUP BY cust) SELECT a.c, b.n FROM u a, u b WHERE a.c <= b.c ORDER BY a.c, b.n

WITH orders AS (SELECT id + 1 AS id FROM orders) SELECT id FROM orders ORDER BY id

SELECT DISTINCT c.city FROM customer c ORDER BY c.city DESC

SELECT -id AS amount, id FROM orders o ORDER BY amount LIMIT 3

SELECT -id AS amount, id FROM orders o ORDER BY o.amount, amount

SELECT ID, Amount + 1 AS `a b` FROM Orders WHERE `AMOUNT` > 1

SELECT CASE WHEN city = 'x' THEN 1 ELSE NULL END AS c, coalesce(city, 'none') AS d, city LIKE '%x' AS e FROM customer

SELECT city FROM customer GROUP BY city HAVING max(name) > 'a' ORDER BY city

SELECT count(*), count(id), sum(id), min(day), max(day), avg(id) FROM orders

SELECT max(id) AS m FROM orders WHERE id > 100

SELECT a.id, b.id AS b FROM orders a LEFT ANTI JOIN item i ON a.id = i.order_id JOIN orders b ON a.cust = b.cust

SELECT sku, count(*) AS n FROM item i LEFT SEMI JOIN orders o ON i.order_id = o.id GROUP BY sku

SELECT q.s FROM (SELECT sku AS s, sum(qty) AS n FROM item GROUP BY sku ORDER BY n DESC LIMIT 2) q

SELECT sku, qty FROM item WHERE (order_id, qty) IN (SELECT id, id FROM orders)

SELECT upper(sku) || '-' AS k, sum(qty) + count(*) AS n FROM item GROUP BY upper(sku), order_id ORDER BY order_id, upper(sku)

SELECT id AS cust, amount FROM orders ORDER BY cust DESC

SELECT cust AS c FROM orders GROUP BY cust HAVING c > 1

SELECT sum(amount) AS amount FROM orders HAVING sum(amount) > 1 OR true

SELECT i.*, qty * 2 AS q2 FROM item AS i CROSS JOIN (SELECT max(id) AS m FROM orders) WHERE qty < m

SELECT t.k FROM customer AS t (k, n, c) WHERE c = 'x'

SELECT id + 1 AS next, next * 2, -id, (amount), id = cust, id <> 2, NOT id > 1, id IS NOT NULL, id IN (1, 2), id BETWEEN 1 AND 2, CASE WHEN next = 2 THEN 'x' ELSE 'y' END, CASE id WHEN 1 THEN 1.50 END, round(amount / cust, 2), cast(id AS string), cast(id AS decimal(15, 4)) / cast(cust AS decimal(15,4)) * 100, coalesce(id, 0), year(day), CAST(day AS STRING) LIKE '2020%' FROM orders

SELECT o.cust, c.name, SUM(amount), count(*), count(DISTINCT o.id), avg(amount * 2), sum(CASE WHEN amount > 2 THEN 1 ELSE 0 END), sum(amount) / count(1), substr(name, 1, 2), max(o.day) FROM orders o JOIN customer c ON o.cust = c.id GROUP BY o.cust, c.name

SELECT cust, year(day) AS y, sum(cust), max(day), grouping(cust), grouping_id() FROM orders GROUP BY ROLLUP (cust, year(day))

SELECT city, name, count(*) AS n, rank() OVER (PARTITION BY grouping(city) + grouping(name) ORDER BY count(*), name) AS place FROM customer GROUP BY city, name WITH CUBE

SELECT cust, day, count(*), max(one) AS top FROM (SELECT *, 1 AS one FROM orders) GROUP BY cust, day, amount GROUPING SETS ((cust, amount), (day, amount), (amount))

SELECT city, count(*) AS n FROM customer GROUP BY ALL ORDER BY 1

SELECT count(*) AS n FROM orders WHERE id > 100 GROUP BY GROUPING SETS (())

SELECT id, sum(amount) OVER (PARTITION BY cust) AS s, rank() OVER (ORDER BY amount DESC, id) AS r, sum(amount) OVER (PARTITION BY cust ORDER BY day, id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) / 2 AS half FROM orders QUALIFY max(id) OVER (PARTITION BY year(day)) = id OR r < 3

SELECT id, cust IN (SELECT id FROM customer) AS a, cust NOT IN (SELECT id FROM customer WHERE id IS NOT NULL) AS b, NOT (cust IN (SELECT id FROM customer)) AS c FROM orders

SELECT id, (cust IN (SELECT id FROM customer)) = false AS a, (cust IN (SELECT id FROM customer)) <> true AS b, (cust IN (SELECT id FROM customer)) IS NULL AS c, coalesce(cust IN (SELECT id FROM customer), true) AS d FROM orders

SELECT id, NOT (cust IN (SELECT id FROM customer) OR amount > 5) AS a, if(cust IN (SELECT id FROM customer), false, true) AS b FROM orders

SELECT id, (id, cust) NOT IN (SELECT order_id, qty FROM item) AS a, (id, cust) IN (SELECT order_id, qty FROM item) AS b FROM orders

SELECT id FROM orders WHERE (id, cust) NOT IN (SELECT order_id, qty FROM item)

SELECT id FROM orders o WHERE amount > 6 OR cust NOT IN (SELECT c.id FROM customer c WHERE c.id <> o.id OR c.city = 'x')

SELECT id FROM orders o WHERE id = 6 OR EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.id AND i.qty > o.amount) OR cust IN (SELECT id FROM customer WHERE city = 'y')

SELECT id, CASE WHEN EXISTS (SELECT 1 FROM item i WHERE i.qty < o.id) THEN 1 ELSE 0 END AS e, NOT EXISTS (SELECT 1 FROM item WHERE sku = 'z') AS n FROM orders o

SELECT cust, count(*) AS n, EXISTS (SELECT 1 FROM customer c WHERE c.id = o.cust) AS e FROM orders o GROUP BY cust

SELECT cust IN (SELECT id FROM customer) AS m, count(*) AS n FROM orders GROUP BY cust IN (SELECT id FROM customer)

SELECT EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.id) AS m, sum(amount) AS s FROM orders o GROUP BY 1

SELECT sum(CASE WHEN cust IN (SELECT id FROM customer) THEN 1 ELSE 0 END) AS n, count(*) FILTER (WHERE EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.id)) AS f FROM orders o

SELECT sum((SELECT max(qty) FROM item i WHERE i.order_id = o.id)) AS s FROM orders o

SELECT cust, count(*) AS n FROM orders o GROUP BY cust HAVING count(*) > 1 OR cust IN (SELECT id FROM customer WHERE city = 'y')

SELECT id, row_number() OVER (ORDER BY id) AS r FROM orders QUALIFY r IN (SELECT qty FROM item WHERE sku = 'a') OR r = 6

SELECT id, (SELECT name FROM customer c WHERE c.id = o.cust) AS name, (SELECT city FROM customer WHERE name = 'bob') AS city FROM orders o

SELECT id, (SELECT DISTINCT sku FROM item WHERE order_id = o.id AND qty < 2) AS d, (SELECT name FROM customer WHERE false) AS f FROM orders o

SELECT id, (SELECT count(*) FROM item i WHERE i.qty < o.id) AS n, (SELECT count(*) + 1 FROM item i WHERE i.order_id = o.id + 1) AS m, (SELECT size(collect_list(qty)) FROM item i WHERE i.order_id = o.cust AND i.sku = 'c') AS l FROM orders o

SELECT id, (SELECT max(qty) FROM item i WHERE i.order_id = o.id OR i.qty = o.cust) AS a, (SELECT max(qty) FROM item i WHERE i.order_id <=> o.id) AS b, (SELECT sum(qty) FROM item i WHERE i.qty = o.amount) AS c FROM orders o

SELECT id, (SELECT count(*) FROM item i WHERE i.order_id = o.id HAVING count(*) <> 1) AS h, (SELECT count(*) FROM item i WHERE i.order_id = o.id GROUP BY i.order_id) AS g FROM orders o

SELECT id, (SELECT max(x) FROM (SELECT qty AS x FROM item i WHERE i.order_id = o.id UNION ALL SELECT id FROM customer c WHERE c.id = o.cust)) AS m FROM orders o

SELECT id, (SELECT max(qty) FROM item UNION SELECT 6 FROM item) AS u, (SELECT id FROM customer ORDER BY id DESC LIMIT 1) AS t FROM orders

SELECT id, (WITH c AS (SELECT * FROM item i WHERE i.order_id = o.id) SELECT sum(qty) FROM c) AS s FROM orders o

SELECT id FROM orders o WHERE EXISTS (SELECT count(*) FROM item i WHERE i.order_id = o.id) AND EXISTS (SELECT i.sku FROM item i WHERE i.order_id = o.id GROUP BY i.sku HAVING sum(i.qty) > 1)

SELECT id FROM orders o WHERE id IN (SELECT max(order_id) FROM item i WHERE i.qty > o.cust) OR id = 4

SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.id EXCEPT SELECT 1 FROM customer c WHERE c.id = o.cust AND c.city = 'y')

SELECT id FROM orders WHERE id IN (SELECT order_id FROM item INTERSECT SELECT id FROM customer)

SELECT id FROM orders WHERE (SELECT max(id) FROM customer) IN (SELECT qty FROM item) AND amount < (SELECT max(qty) FROM item)

SELECT o.id, x.m FROM orders o, LATERAL (SELECT max(qty) AS m FROM item i WHERE i.order_id = o.id) x

SELECT o.id, x.q FROM orders o LEFT JOIN LATERAL (SELECT qty AS q FROM item i WHERE i.order_id < o.id) x ON x.q > 2

SELECT o.id, c.name, x.n FROM orders o, customer c, LATERAL (SELECT count(*) AS n FROM item i WHERE i.order_id = o.id AND i.qty >= c.id) AS x (n) WHERE o.cust = c.id

SELECT id FROM orders o WHERE cust = (SELECT max(c.id) FROM customer c WHERE EXISTS (SELECT 1 FROM item i WHERE i.qty = c.id) AND c.id <= o.id)

SELECT v.k, s, o.id, one, r.id AS n FROM (VALUES (1, 'a'), (2, NULL), (NULL, 'c')) AS v(k, s) LEFT JOIN orders o ON o.cust = v.k, (SELECT 1 AS one), range(2, 5) r

SELECT id, amount FROM orders UNION ALL VALUES (10, 1.50), (NULL, 2) ORDER BY ALL DESC LIMIT 4 OFFSET 2

SELECT 1, 'x' AS t UNION ALL SELECT id, string(day) FROM orders

SELECT /*+ BROADCAST(c), REPARTITION(3) */ o.id, e.n, p.pos, p.col, x FROM orders o JOIN customer c ON o.cust = c.id LATERAL VIEW OUTER explode(split(c.name, 'n')) e AS n LATERAL VIEW posexplode(array(e.n, city)) p LATERAL VIEW explode(map('k', o.id)) m AS k, x WHERE n IS NOT NULL AND o.id > 1 DISTRIBUTE BY o.id SORT BY pos DESC

SELECT cust, posexplode_outer(collect_set(day)) AS (p, x), count(*) AS n FROM orders GROUP BY cust

SELECT explode(map(1, id, 2, cust)), amount FROM orders ORDER BY id OFFSET 2

SELECT i.qty, c.name FROM item i LEFT JOIN (orders o JOIN customer c ON o.cust = c.id) ON i.order_id = o.id

SELECT * FROM (SELECT cust, amount, year(day) AS y FROM orders) PIVOT (sum(amount) AS s, count(*), max(amount) FOR y IN (2020, 2021 AS last, 1999))

SELECT * FROM customer PIVOT (max(name) FOR city IN ('x', 'y' AS why, NULL))

SELECT * FROM orders UNPIVOT (val FOR what IN (id, cust AS c, amount)) AS u

SELECT u.* FROM orders UNPIVOT INCLUDE NULLS ((one, other) FOR what IN ((id, amount) AS a, (cust, amount))) AS u ORDER BY ALL

SELECT DISTINCT cust AS c, upper(city), city || 'x' AS cx FROM orders RIGHT JOIN customer USING (id) ORDER BY c NULLS LAST, cx

SELECT id, (SELECT qty FROM item i WHERE i.order_id = o.id ORDER BY i.sku DESC LIMIT 1) AS q, (SELECT qty FROM item i WHERE i.order_id < o.id ORDER BY i.qty LIMIT 1) AS f FROM orders o

SELECT o.id, x.qty FROM orders o, LATERAL (SELECT i.qty FROM item i WHERE i.order_id <= o.id ORDER BY i.qty DESC LIMIT 2) x

SELECT o.id, c.id AS c FROM orders o JOIN customer c ON o.cust = c.id AND EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.id)

SELECT o.id, c.id AS c FROM orders o LEFT JOIN customer c ON o.cust = c.id AND c.id NOT IN (SELECT qty FROM item WHERE sku = 'b') AND o.amount > (SELECT min(qty) FROM item)

SELECT o.id FROM orders o LEFT SEMI JOIN customer c ON o.cust = c.id AND o.id IN (SELECT order_id FROM item)

SELECT id, (SELECT 6) AS six, (SELECT o.id + 1) AS next FROM orders o

SELECT cust, to_json(sort_array(collect_list(struct(ID, o.amount, (day), id + 1)))) AS s, max_by(struct(o.id, day), day).id AS l FROM orders o GROUP BY cust

SELECT DISTINCT to_json((order_id, i.qty)) AS t, to_json(struct(qty AS n, (SELECT max(id) FROM customer), sku)) AS s FROM item i

SELECT to_json(arrays_zip(collect_list(sku), collect_set(i.qty), array(i.order_id))) AS z, to_json(struct(order_id, count(*), i.order_id + 1)) AS s FROM item i GROUP BY order_id

SELECT to_json(arrays_zip(array(i.qty), xs, ys)) AS z, to_json(transform(Xs, X -> struct(x, i.SKU, X AS y))) AS t FROM (SELECT *, array(sku) AS xs, array(1, 2) AS Ys FROM item) i

SELECT id AS foo, to_json(struct(foo, (foo), foo + 1)) AS s, sum(id) OVER (PARTITION BY struct(cust) ORDER BY (id, day)) AS w FROM orders

SELECT trunc(day, o.unit) AS b, CAST(date_trunc(unit, ts) AS DATE) AS a, CAST(date_trunc(lower(o.unit), max(ts) OVER (PARTITION BY unit)) AS DATE) AS c FROM (SELECT *, CAST(day AS TIMESTAMP) AS ts, CASE WHEN id > 2 THEN 'YEAR' ELSE 'MONTH' END AS unit FROM orders) o

SELECT * FROM (SELECT CASE WHEN id > 2 THEN '02' ELSE '1' END AS s, amount FROM orders) PIVOT (count(amount) FOR s IN (1, 2, '02'))

SELECT * FROM (SELECT sku, qty FROM item) PIVOT (sum(qty) FOR qty IN ('1', 2, 3))

SELECT * FROM (SELECT day, id FROM orders) PIVOT (count(id) AS n, stddev(id) AS s FOR day IN (DATE '2020-01-01', DATE '2021-01-01' AS later))

SELECT order_id, size(a_l) AS a, a_n, size(z_l) AS z, z_n FROM (SELECT order_id, sku, qty FROM item) PIVOT (collect_list(qty) AS l, count(*) AS n FOR sku IN ('a', 'z'))

SELECT * FROM (SELECT order_id, CAST(qty AS BIGINT) AS a, CAST(sku || '1' AS string) IS NULL AS c, CAST((qty + 1) AS int) AS b FROM item) UNPIVOT ((v) FOR w IN ((a) AS x, (b) AS y))

SELECT round(amount, -1), coalesce(cust, - 1), amount > -1, -1, -id, CASE WHEN id > -1 THEN -1.5 ELSE 1 END FROM orders

SELECT (cust, id) AS s FROM orders UNION ALL SELECT (id, cust) FROM orders
