-- Cron entries and what became of their fires. `next_ms` is the cursor: the fire that is next to be settled. It moves by a
-- conditional UPDATE, together with the record of that fire. `wake_ms` says when a scheduler looks (NULL = not at all); who
-- looks moves it first, which is its lease. Moments are ms by the clock of this server.

CREATE TABLE schedule (
  tenant INT UNSIGNED NOT NULL,
  id BINARY(16) NOT NULL,
  name VARCHAR(128) CHARACTER SET utf8mb4 NOT NULL,
  cron VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  zone VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- Late fires that are made up for, the latest ones: 0 skip, 1 once, n all up to n.
  misfire_max INT UNSIGNED NOT NULL,
  is_overlap_skipped BOOLEAN NOT NULL,
  status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  template MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  version INT UNSIGNED NOT NULL,
  next_ms BIGINT UNSIGNED NULL,
  wake_ms BIGINT UNSIGNED NULL,
  -- The fire that was begun: it is no misfire, however late its end; and when, and how often it was refused.
  begun_ms BIGINT UNSIGNED NULL,
  begun_at_ms BIGINT UNSIGNED NULL,
  tries INT UNSIGNED NOT NULL DEFAULT 0,
  last_task BINARY(16) NULL,
  created_ms BIGINT UNSIGNED NOT NULL,
  changed_ms BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (tenant, id),
  KEY schedule_wake (wake_ms)
) ENGINE = InnoDB;

CREATE TABLE schedule_fire (
  n BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  tenant INT UNSIGNED NOT NULL,
  schedule BINARY(16) NOT NULL,
  fire_ms BIGINT UNSIGNED NOT NULL,
  outcome VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  task BINARY(16) NULL,
  detail VARCHAR(255) CHARACTER SET utf8mb4 NULL,
  at_ms BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (n),
  KEY schedule_fire_of (tenant, schedule, n)
) ENGINE = InnoDB;
