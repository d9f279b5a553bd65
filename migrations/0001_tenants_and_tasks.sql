-- Tenants, their keys, and the accepted tasks. MySQL keeps the truth: Redis can be rebuilt from these rows.
-- Written for MySQL 8 and MariaDB 10.11. Moments are milliseconds since the Unix epoch.

CREATE TABLE tenant (
  no INT UNSIGNED NOT NULL AUTO_INCREMENT,
  name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  weight INT UNSIGNED NOT NULL DEFAULT 1,
  running_max INT UNSIGNED NULL,
  depth_max INT UNSIGNED NULL,
  created_ms BIGINT UNSIGNED NOT NULL,
  revoked_ms BIGINT UNSIGNED NULL,
  PRIMARY KEY (no),
  UNIQUE KEY tenant_name (name)
) ENGINE = InnoDB;

CREATE TABLE api_key (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  tenant INT UNSIGNED NOT NULL,
  name VARCHAR(64) CHARACTER SET utf8mb4 NOT NULL,
  hash BINARY(32) NOT NULL,
  scopes VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_ms BIGINT UNSIGNED NOT NULL,
  expires_ms BIGINT UNSIGNED NULL,
  revoked_ms BIGINT UNSIGNED NULL,
  PRIMARY KEY (id),
  UNIQUE KEY api_key_hash (hash),
  KEY api_key_tenant (tenant)
) ENGINE = InnoDB;

-- Bumped in the same transaction as any change of tenants or keys; processes poll it.
CREATE TABLE revision (
  name VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB;

INSERT INTO revision (name, n) VALUES ('keys', 1);

CREATE TABLE task (
  tenant INT UNSIGNED NOT NULL,
  id BINARY(16) NOT NULL,
  thread BINARY(16) NOT NULL,
  agent VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  end_user VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  status VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  place CHAR(21) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- `place` while the task has not ended, NULL after it: the index below holds what a rebuild must read, in order.
  open_place CHAR(21) CHARACTER SET ascii COLLATE ascii_bin NULL,
  priority TINYINT UNSIGNED NOT NULL,
  cost_tokens INT UNSIGNED NOT NULL,
  body_hash BINARY(32) NOT NULL,
  idempotency_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  accepted_ms BIGINT UNSIGNED NOT NULL,
  -- By the clock of this server, which also judges it.
  deadline_ms BIGINT UNSIGNED NULL,
  started_ms BIGINT UNSIGNED NULL,
  ended_ms BIGINT UNSIGNED NULL,
  attempt INT UNSIGNED NOT NULL DEFAULT 0,
  crashes INT UNSIGNED NOT NULL DEFAULT 0,
  failures INT UNSIGNED NOT NULL DEFAULT 0,
  worker VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  spec MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  result MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  token_usage TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  model VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  model_calls INT UNSIGNED NOT NULL DEFAULT 0,
  error_code VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  error_message TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  PRIMARY KEY (tenant, id),
  UNIQUE KEY task_idempotency (tenant, idempotency_key),
  KEY task_open (open_place),
  KEY task_listed (tenant, accepted_ms, id),
  KEY task_thread (tenant, thread, accepted_ms)
) ENGINE = InnoDB;
