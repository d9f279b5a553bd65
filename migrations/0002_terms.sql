-- Terms by which tenants are served, and what operators paused. Recovery brings Redis in line with these rows.

ALTER TABLE tenant
  ADD COLUMN live_max INT UNSIGNED NULL AFTER depth_max,
  ADD COLUMN user_live_max INT UNSIGNED NULL AFTER live_max,
  ADD COLUMN starts_per_minute INT UNSIGNED NULL AFTER user_live_max;

CREATE TABLE pause (
  -- `queue` (with an empty name), `tenant` or `agent`.
  kind VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  since_ms BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (kind, name)
) ENGINE = InnoDB;

-- Bumped in the same transaction as any change of a tenant's terms or of a pause.
INSERT INTO revision (name, n) VALUES ('queue', 1);
