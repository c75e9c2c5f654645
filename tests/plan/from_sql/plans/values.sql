SELECT k, s, one FROM (VALUES (1, 'a'), (2, NULL)) AS v(k, s) JOIN orders o ON o.id = v.k, (SELECT 1 AS one), range(2, 5) r WHERE r.id = o.id
UNION ALL VALUES (1, 'x', 3) ORDER BY ALL DESC LIMIT 3 OFFSET 2
