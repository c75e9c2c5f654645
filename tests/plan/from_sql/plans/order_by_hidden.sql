SELECT -amount AS amount FROM orders o ORDER BY o.amount, amount + 1
