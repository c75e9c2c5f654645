SELECT cust, max(struct(o.day, (id), amount + 1)).id AS last, (cust, count(*)) AS pair, arrays_zip(collect_list(id), array(o.cust)) AS zipped FROM orders o GROUP BY cust
