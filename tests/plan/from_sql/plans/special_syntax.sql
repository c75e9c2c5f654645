SELECT position('a' IN name) AS a, trim(BOTH 'x' FROM name) AS b, substring(name FROM 2 FOR 1) AS c,
  name LIKE ANY ('a', 'b') AS e, name IS DISTINCT FROM city AS f, id DIV 2 AS h, array(id)[0] AS n, map('a', id)['a'] AS o,
  case id when 1 then 'a' end AS t, extract(YEAR FROM current_date) AS y, user AS u, exists(array(id), x -> x > 1) AS z,
  datediff(DAY, DATE'2020-01-01', current_date()) AS d, id::string AS i, r'\d' AS raw
FROM customer
