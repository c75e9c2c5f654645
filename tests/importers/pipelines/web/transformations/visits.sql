CREATE TEMP VIEW numbered AS
SELECT visitor, page, at,
       row_number() OVER (PARTITION BY visitor ORDER BY at) AS number,
       lag(page) OVER (PARTITION BY visitor ORDER BY at) AS before
FROM visits;

CREATE MATERIALIZED VIEW steps AS
SELECT before, page, count(*) AS times FROM numbered WHERE before IS NOT NULL GROUP BY before, page;

CREATE MATERIALIZED VIEW pages AS
SELECT page, count(DISTINCT visitor) AS visitors FROM visits GROUP BY page
UNION ALL
SELECT 'any', count(DISTINCT visitor) FROM visits
