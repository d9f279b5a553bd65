-- Webhooks. A delivery stands here from the accept record on, in the same transaction, so that no end can be told to
-- nobody: it is looked at until its task has ended, and then delivered. Moments are ms by the clock of this server.

ALTER TABLE task ADD COLUMN has_webhook BOOLEAN NOT NULL DEFAULT FALSE;

-- What signs a tenant's deliveries, and where they go unless a request says otherwise.
CREATE TABLE webhook_tenant (
  tenant INT UNSIGNED NOT NULL,
  secret BINARY(32) NOT NULL,
  secret_before BINARY(32) NULL,
  before_until_ms BIGINT UNSIGNED NULL,
  url VARCHAR(2048) CHARACTER SET ascii COLLATE ascii_bin NULL,
  events VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  PRIMARY KEY (tenant)
) ENGINE = InnoDB;

CREATE TABLE webhook_delivery (
  tenant INT UNSIGNED NOT NULL,
  task BINARY(16) NOT NULL,
  id BINARY(16) NOT NULL,
  url VARCHAR(2048) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- The terminal statuses that are told, comma-separated.
  events VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  state VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_ms BIGINT UNSIGNED NOT NULL,
  -- When it is looked at next; NULL once nothing is left to do. Whoever looks moves it first, which is its lease.
  due_ms BIGINT UNSIGNED NULL,
  first_try_ms BIGINT UNSIGNED NULL,
  done_ms BIGINT UNSIGNED NULL,
  tries INT UNSIGNED NOT NULL DEFAULT 0,
  -- The latest tries, newest last, as JSON.
  log TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  PRIMARY KEY (tenant, task),
  KEY webhook_due (due_ms),
  KEY webhook_done (done_ms)
) ENGINE = InnoDB;
