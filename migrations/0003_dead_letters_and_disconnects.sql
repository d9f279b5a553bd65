-- Dead letters and their replays, and tasks that are cancelled when nobody watches them any more.

ALTER TABLE task
  -- When its attempts ran out; NULL for every other task, and once it was replayed or purged.
  ADD COLUMN dead_ms BIGINT UNSIGNED NULL,
  -- The task that this one repeats, and the one that repeats this one.
  ADD COLUMN replay_of BINARY(16) NULL,
  ADD COLUMN replayed_as BINARY(16) NULL,
  ADD COLUMN cancel_on_disconnect TINYINT UNSIGNED NOT NULL DEFAULT 0,
  ADD KEY task_dead (tenant, dead_ms);
