-- Tasks that start later: a moment by the clock of this server, NULL = at once. Also that of a retry which backs off, so
-- that a rebuild of the queue puts it back to wait and not in line.
ALTER TABLE task ADD COLUMN not_before_ms BIGINT UNSIGNED NULL;
