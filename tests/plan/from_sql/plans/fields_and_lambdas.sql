SELECT i.spec.size, spec.tags[0] AS first, transform(i.spec.tags, sku -> concat(sku, i.sku)) AS t FROM item AS i
