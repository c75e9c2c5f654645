SELECT date_trunc(upper(i.sku), ts) AS a, trunc(ts, sku) AS b, date_trunc('month', ts) AS c FROM (SELECT *, CAST(qty AS TIMESTAMP) AS ts FROM item) i
