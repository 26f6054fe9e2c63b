-- Node types are data (artiway/tasks/catalogue.toml): a new one needs no migration.
ALTER TABLE task_node DROP CONSTRAINT task_node_type_check,
    ADD CONSTRAINT task_node_type_check CHECK (length(type) BETWEEN 1 AND 64);
