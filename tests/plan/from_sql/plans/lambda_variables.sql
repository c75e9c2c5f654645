SELECT transform(spec.tags, sku -> concat(SKU, item.sku)) AS hidden,
       transform(spec.tags, `a b` -> transform(spec.tags, T -> concat(`A B`, t, qty))) AS nested,
       aggregate(spec.tags, '', (acc, x) -> ACC || x, ACC -> upper(acc)) AS joined
FROM item WHERE exists(spec.tags, qty -> QTY = sku)
