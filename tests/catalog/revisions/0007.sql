DELETE FROM seals;
INSERT INTO workflow_versions (version, name, content) VALUES ('w1', 'flow', '{"name": "flow"}');

INSERT INTO runs (id, workflow, workflow_version, status, capture, variables, content, report, started_at, committed_at, lineage, lineage_note, ordinal)
VALUES ('r1', 'flow', 'w1', 'committed', 'stage', '{"since": "1995"}', '{"name": "flow"}', '{"run_id": "r1"}',
        '2026-01-01T00:00:00.000+00:00', '2026-01-01T00:00:01.000+00:00', 'complete', NULL, 1);

INSERT INTO run_steps (run_id, node, operator, strategy, reason, rows, estimate, members)
VALUES ('r1', 'totals', 'aggregate', 'stage', 'asked for', 7, 30, 40);

INSERT INTO dataset_versions (id, kind, run_id, rows, bytes, body)
VALUES ('v1', 'snapshot', 'r1', 3, 30, '{"kind": "snapshot", "files": [], "columns": [], "gaps": []}');

INSERT INTO dataset_versions (id, kind, run_id, rows, bytes, body)
VALUES ('v2', 'output', 'r1', 5000000000, 99, '{"kind": "output", "files": [], "columns": [], "gaps": []}');

INSERT INTO run_datasets (run_id, name, workflow, role, space, version_id, declared)
VALUES ('r1', 'orders', 'flow', 'source', 'source:orders', 'v1', '{"path": "orders.csv"}');

INSERT INTO run_datasets (run_id, name, workflow, role, space, version_id, declared)
VALUES ('r1', 'totals', 'flow', 'output', 'step:totals', 'v2', '{}');

INSERT INTO hops (run_id, ordinal, from_space, to_space, role, form, rows, bytes, backward, forward, body)
VALUES ('r1', 0, 'step:totals', 'source:orders', 0, 'pairs', 3, 10, 'runs/r1/index/0.backward.parquet', 'runs/r1/index/0.forward.parquet', NULL);
INSERT INTO prepared (run_id, name, kind, rows, bytes, path, body) VALUES ('r1', 'monthly', 'groups', 7, 90, 'runs/r1/index/monthly.prepared.parquet', '{"question": {}}');
INSERT INTO dataset_columns (run_id, dataset, ordinal, name, type, pii, reads, influenced_by, decided_by)
VALUES ('r1', 'totals', 0, 'revenue', 'bigint', true, '[["orders", "amount"]]', '[]', NULL);
INSERT INTO subject_rows (version_id, kind, "column", run_id, key_id, persons, rows, body)
VALUES ('v1', 'customer', 'id', 'r1', 'k1', 2, 3, '{"layers": []}');
INSERT INTO erasures (id, kind, state, at, body, certificate) VALUES ('e1', 'erasure', 'done', '2026-01-02T00:00:00.000+00:00', '{}', '{}');
INSERT INTO erased_subjects (kind, hash, key_id, erasure_id, at) VALUES ('customer', 'h1', 'k1', 'e1', '2026-01-02T00:00:00.000+00:00');
INSERT INTO audit_log (number, at, os_user, actor, verb, request, subjects, datasets, counts, result, details, key_id, previous, hash)
VALUES (1, '2026-01-02T00:00:00.000+00:00', 'u', NULL, 'access', NULL, '{}', '[]', '{}', 'done', '{}', 'k1', '', 'h');
INSERT INTO audit_requests (reference, kind, status, received, due, four_eyes, recipients, updated_at, seal)
VALUES ('R-1', 'erasure', 'open', '2026-01-01', '2026-02-01', false, '[]', '2026-01-02T00:00:00.000+00:00', 's');
INSERT INTO run_files (run_id, path, sums) VALUES ('r1', 'data/totals/part-0.parquet', '{}');
