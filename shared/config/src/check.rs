//! Ranges, and relations between settings. Every finding is collected, so that one start shows all of them.

use std::fmt::Display;
use std::time::Duration;

use crate::{Carve, ConfigError, Hop, Limit, Settings};

/// A door's commit may come this late after its admission (design law 3); the reconciler must wait longer.
const COMMIT_MS_MAX: u64 = 10_000;

pub(crate) fn relations(settings: &Settings) -> Result<(), ConfigError> {
    let mut findings = Findings(Vec::new());
    ranges(settings, &mut findings);
    breaker(settings, &mut findings);
    between(settings, &mut findings);
    names(settings, &mut findings);
    if findings.0.is_empty() { Ok(()) } else { Err(ConfigError::Contradiction { findings: findings.0 }) }
}

struct Findings(Vec<String>);

impl Findings {
    fn range<T: PartialOrd + Display>(&mut self, path: &str, value: T, least: T, most: T) {
        if value < least || value > most {
            self.0.push(format!("{path} = {value}: must be {least} to {most}"));
        }
    }

    fn ms(&mut self, path: &str, value: Duration, least: u64, most: u64) {
        self.range(path, value.as_millis(), u128::from(least), u128::from(most));
    }

    fn require(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.0.push(text());
        }
    }
}

fn ranges(settings: &Settings, f: &mut Findings) {
    let Settings { redis, mysql, api, queue, events, worker, gateway, buckets, schedule, webhook, retention, .. } =
        settings;
    f.ms("redis.admission_timeout_ms", redis.admission_timeout, 5, 5000);
    f.ms("redis.connect_timeout_ms", redis.connect_timeout, 100, 60_000);
    f.ms("redis.judge_every_ms", redis.judge_every, 1000, 86_400_000);
    f.range("mysql.pool_max", mysql.pool_max, 4, 200);
    f.ms("mysql.timeout_ms", mysql.timeout, 100, 60_000);
    f.range("mysql.batch_rows_max", mysql.batch_rows_max, 1, 256);
    f.range("api.body_bytes_max", api.body_bytes_max, 1024, 32 << 20);
    f.range("api.batch_items_max", api.batch_items_max, 1, 1000);
    f.range("api.batch_bytes_max", api.batch_bytes_max, 1024, 128 << 20);
    f.range("api.batch_concurrency", api.batch_concurrency, 1, 128);
    f.range("api.requests_max", api.requests_max, 1, 100_000);
    f.ms("api.keys_refresh_ms", api.keys_refresh, 100, 2000);
    f.ms("api.drain_ms", api.drain, 0, 600_000);
    f.range("queue.depth_max", queue.depth_max, 1, 10_000_000);
    f.range("queue.tenant_depth_max", queue.tenant_depth_max, 1, queue.depth_max);
    f.range("queue.delayed_max", queue.delayed_max, 1, 10_000_000);
    f.range("queue.tenant_delayed_max", queue.tenant_delayed_max, 1, queue.delayed_max);
    f.ms("queue.delay_ms_max", queue.delay_max, 1000, 315_360_000_000);
    f.ms("queue.beat_every_ms", queue.beat_every, 100, 60_000);
    f.range("queue.crashes_max", queue.crashes_max, 1, 100);
    f.range("queue.failures_max", queue.failures_max, 1, 100);
    f.range("queue.quarantine_crashes_min", queue.quarantine_crashes_min, 0, queue.crashes_max);
    f.range("queue.quarantine_running_max", queue.quarantine_running_max, 1, 100);
    f.ms("queue.back_off_ms_min", queue.back_off_min, 1, 3_600_000);
    f.ms("queue.back_off_ms_max", queue.back_off_max, 1, 86_400_000);
    f.ms("queue.hint_ms_max", queue.hint_max, 0, 86_400_000);
    f.ms("queue.cancel_grace_ms", queue.cancel_grace, 0, 60_000);
    f.range("queue.dead_batch_max", queue.dead_batch_max, 1, 1000);
    f.range("queue.priority_head_start_ms", queue.priority_head_start_ms, 0, 3_600_000);
    f.range("queue.task_cost_tokens", queue.task_cost_tokens, 1, 1_000_000);
    f.range("queue.task_cost_tokens_max", queue.task_cost_tokens_max, queue.task_cost_tokens, 1_000_000_000);
    f.range("queue.debt_max_tokens", queue.debt_max_tokens, 0, 1_000_000_000);
    f.ms("queue.reconcile_every_ms", queue.reconcile_every, 1000, 600_000);
    f.ms("events.keep_ms", events.keep, 1000, 86_400_000);
    f.ms("events.merge_ms", events.merge, 0, 1000);
    f.range("events.merge_bytes_max", events.merge_bytes_max, 1, 65_536);
    f.range("events.reader_bytes_max", events.reader_bytes_max, 65_536, 64 << 20);
    f.range("events.sockets_max", events.sockets_max, 1, 1_000_000);
    f.range("events.sockets_per_key_max", events.sockets_per_key_max, 1, events.sockets_max);
    f.range("events.tasks_per_socket_max", events.tasks_per_socket_max, 1, 10_000);
    f.ms("events.unknown_task_wait_ms", events.unknown_task_wait, 1000, 600_000);
    f.ms("events.ping_every_ms", events.ping_every, 1000, 30_000);
    f.ms("events.standing_every_ms", events.standing_every, 500, 600_000);
    f.range("events.standings_per_second_max", events.standings_per_second_max, 0, 100_000);
    f.ms("events.silence_ms", events.silence, 1000, 600_000);
    f.ms("events.disconnect_grace_ms", events.disconnect_grace, 1000, 3_600_000);
    f.ms("events.ticket_ms", events.ticket, 1000, 300_000);
    f.range("worker.slots", worker.slots, 1, 10_000);
    f.ms("worker.drain_ms", worker.drain, 0, 3_600_000);
    f.ms("worker.attempt_ms_max", worker.attempt_max, 1000, 86_400_000);
    f.ms("worker.stop_grace_ms", worker.stop_grace, 100, 600_000);
    f.range("worker.wedged_max", worker.wedged_max, 0, 10_000);
    f.range("worker.history_messages_max", worker.history_messages_max, 0, 10_000);
    f.range("worker.history_bytes_max", worker.history_bytes_max, 0, 16 << 20);
    f.range("worker.answer_bytes_max", worker.answer_bytes_max, 1024, 16 << 20);
    f.range("schedule.tenant_max", schedule.tenant_max, 0, 100_000);
    f.ms("schedule.misfire_after_ms", schedule.misfire_after, 1000, 86_400_000);
    f.range("schedule.misfire_max", schedule.misfire_max, 1, 10_000);
    f.ms("schedule.retry_for_ms", schedule.retry_for, 0, 86_400_000);
    f.range("schedule.history_max", schedule.history_max, 1, 10_000);
    f.range("schedule.concurrency", schedule.concurrency, 1, 256);
    f.ms("webhook.connect_ms", webhook.connect, 10, 60_000);
    f.range("webhook.concurrency", webhook.concurrency, 1, 1000);
    f.range("webhook.target_concurrency", webhook.target_concurrency, 1, webhook.concurrency);
    f.ms("webhook.back_off_ms", webhook.back_off, 100, 3_600_000);
    f.range("webhook.tries_max", webhook.tries_max, 1, 100);
    f.ms("webhook.give_up_ms", webhook.give_up, 1000, 604_800_000);
    f.ms("webhook.keep_ms", webhook.keep, 60_000, 31_536_000_000);
    f.ms("webhook.secret_overlap_ms", webhook.secret_overlap, 0, 2_592_000_000);
    f.ms("gateway.connect_ms", gateway.connect, 10, 60_000);
    f.ms("gateway.first_token_ms", gateway.first_token, 10, 600_000);
    f.ms("gateway.idle_ms", gateway.idle, 10, 600_000);
    f.ms("gateway.total_ms", gateway.total, 10, 3_600_000);
    f.range("gateway.permits", gateway.permits, 1, 100_000);
    f.ms("gateway.spacing_ms", gateway.spacing, 0, 10_000);
    f.ms("gateway.push_back_ms", gateway.push_back, 0, 600_000);
    f.range("gateway.attempts_per_hop", gateway.attempts_per_hop, 1, 10);
    f.ms("gateway.hint_ms_max", gateway.hint_max, 0, 600_000);
    f.range("gateway.tenant_calls_max", gateway.tenant_calls_max, 0, 100_000);
    f.ms("gateway.hedge_after_ms", gateway.hedge_after, 0, 600_000);
    f.range("gateway.cache_bytes_max", gateway.cache_bytes_max, 0, 1 << 30);
    f.range("gateway.cache_answer_bytes_max", gateway.cache_answer_bytes_max, 1024, 16 << 20);
    f.ms("gateway.cache_keep_ms", gateway.cache_keep, 1000, 86_400_000);
    f.range("gateway.event_bytes_max", gateway.event_bytes_max, 1024, 64 << 20);
    f.range("gateway.body_bytes_max", gateway.body_bytes_max, gateway.event_bytes_max, 1 << 30);
    f.ms("gateway.wait_ms", gateway.wait, 0, 600_000);
    f.range("gateway.retry_percent", gateway.retry_percent, 0, 100);
    f.range("gateway.retry_per_second", gateway.retry_per_second, 0, 10_000);
    f.range("gateway.retry_burst", gateway.retry_burst, 0, 10_000);
    f.ms("gateway.parked_plan_ms", gateway.parked_plan, 0, 86_400_000);
    f.ms("gateway.parked_denied_ms", gateway.parked_denied, 0, 86_400_000);
    f.range("gateway.idle_connections_max", gateway.idle_connections_max, 0, 10_000);
    f.ms("gateway.push_back_spacing_ms", gateway.push_back_spacing, 0, 10_000);
    f.ms("buckets.timeout_ms", buckets.timeout, 5, 5000);
    f.ms("buckets.cool_down_ms", buckets.cool_down, 100, 600_000);
    f.require(buckets.local_share > 0.0 && buckets.local_share <= 1.0, || {
        format!("buckets.local_share = {}: must be above 0, to 1", buckets.local_share)
    });
    f.ms("buckets.told_ms", buckets.told, 0, 3_600_000);
    f.range("buckets.waiting_max", buckets.waiting_max, 1, 1_000_000);
    f.range("buckets.ahead", buckets.ahead, 1, 10_000);
    f.ms("buckets.pass_spacing_ms", buckets.pass_spacing, 0, 600_000);
    f.range("buckets.pass_share", buckets.pass_share, 0.0, 1.0);
    f.range("retention.ended_days", retention.ended_days, 0, 36_500);
    f.range("retention.failed_days", retention.failed_days, 0, 36_500);
    f.range("retention.rows_max", retention.rows_max, 1, 1000);
    f.ms("retention.sweep_every_ms", retention.sweep_every, 100, 3_600_000);
}

fn breaker(settings: &Settings, f: &mut Findings) {
    let breaker = &settings.breaker;
    f.range("breaker.failures", breaker.failures, 0, 1_000);
    f.ms("breaker.cool_down_ms", breaker.cool_down, 1, 3_600_000);
    f.range("breaker.cool_down_ms_max", breaker.cool_down_max.as_millis(), breaker.cool_down.as_millis(), 86_400_000);
    f.range("breaker.successes_to_close", breaker.successes_to_close, 1, 100);
    f.ms("breaker.rate_window_ms", breaker.rate_window, 1000, 3_600_000);
    f.range("breaker.rate_calls_min", breaker.rate_calls_min, 1, 100_000);
    let percents = [
        ("breaker.rate_failures_percent", breaker.rate_failures_percent),
        ("breaker.rate_timeouts_percent", breaker.rate_timeouts_percent),
        ("breaker.rate_errors_percent", breaker.rate_errors_percent),
    ];
    for (path, percent) in percents {
        f.range(path, percent, 0, 100);
    }
    f.require(breaker.failures > 0 || percents.iter().any(|(_, percent)| *percent > 0), || {
        "breaker.failures = 0: then one of breaker.rate_*_percent must be more than 0, or no breaker ever trips".into()
    });
}

fn between(settings: &Settings, f: &mut Findings) {
    let Settings { redis, mysql, api, queue, worker, gateway, webhook, retention, .. } = settings;
    f.require(queue.lease > 3 * queue.beat_every, || {
        format!(
            "queue.lease_ms = {}: must be more than three beats (queue.beat_every_ms = {})",
            queue.lease.as_millis(),
            queue.beat_every.as_millis()
        )
    });
    f.require(redis.script_timeout > redis.admission_timeout && redis.script_timeout < queue.lease, || {
        format!(
            "redis.script_timeout_ms = {}: must be more than redis.admission_timeout_ms and less than queue.lease_ms",
            redis.script_timeout.as_millis()
        )
    });
    f.require(queue.back_off_min <= queue.back_off_max, || {
        format!("queue.back_off_ms_min = {}: must be at most queue.back_off_ms_max", queue.back_off_min.as_millis())
    });
    f.require(mysql.batch_waiting_max >= mysql.batch_rows_max, || {
        format!("mysql.batch_waiting_max = {}: must be at least mysql.batch_rows_max", mysql.batch_waiting_max)
    });
    f.require(api.request_timeout > mysql.timeout + 2 * redis.script_timeout, || {
        format!(
            "api.request_timeout_ms = {}: must be more than mysql.timeout_ms + 2 × redis.script_timeout_ms",
            api.request_timeout.as_millis()
        )
    });
    f.require(mysql.timeout < queue.lease, || {
        format!("mysql.timeout_ms = {}: must be less than queue.lease_ms", mysql.timeout.as_millis())
    });
    f.require(queue.reconcile_age_min > Duration::from_millis(COMMIT_MS_MAX), || {
        format!(
            "queue.reconcile_age_min_ms = {}: must be more than {COMMIT_MS_MAX}, the time that a door may take to commit",
            queue.reconcile_age_min.as_millis()
        )
    });
    f.require(webhook.connect <= webhook.total && webhook.total < Duration::from_secs(60), || {
        format!("webhook.total_ms = {}: must be at least webhook.connect_ms and below 60000", webhook.total.as_millis())
    });
    f.require((webhook.back_off..=Duration::from_secs(86_400)).contains(&webhook.back_off_max), || {
        format!(
            "webhook.back_off_ms_max = {}: must be webhook.back_off_ms to 86400000",
            webhook.back_off_max.as_millis()
        )
    });
    f.require(retention.failed_days == 0 || retention.failed_days >= retention.ended_days, || {
        format!(
            "retention.failed_days = {}: must be 0 or at least retention.ended_days = {}",
            retention.failed_days, retention.ended_days
        )
    });
    f.require(gateway.first_token < gateway.total, || {
        format!(
            "gateway.first_token_ms = {}: must be less than gateway.total_ms = {}",
            gateway.first_token.as_millis(),
            gateway.total.as_millis()
        )
    });
    f.require(gateway.time_box >= gateway.first_token, || {
        format!("gateway.time_box_ms = {}: must be at least gateway.first_token_ms", gateway.time_box.as_millis())
    });
    f.require(worker.attempt_max >= gateway.total, || {
        format!("worker.attempt_ms_max = {}: must be at least gateway.total_ms", worker.attempt_max.as_millis())
    });
}

fn names(settings: &Settings, f: &mut Findings) {
    for (path, name) in [("deployment.id", &settings.deployment.id), ("queue.name", &settings.queue.name)] {
        f.require(is_name(name, 32), || format!("{path} = \"{name}\": must be 1 to 32 of a-z 0-9 -"));
    }
    for (name, chain) in &settings.chains {
        f.require(!chain.hops.is_empty(), || format!("chains.{name}.hops: must name at least one provider/model"));
        for hop in &chain.hops {
            let provider = &hop.exit.provider;
            f.require(settings.providers.contains_key(provider), || {
                format!("chains.{name}.hops: provider `{provider}` is not in [providers]")
            });
        }
    }
    for (name, limit) in &settings.limits {
        limits(name, limit, settings, f);
    }
    for (name, agent) in &settings.agents {
        f.require(is_name(name, 64), || format!("agents.{name}: a name is 1 to 64 of a-z 0-9 -"));
        f.require(settings.chains.contains_key(&agent.chain), || {
            format!("agents.{name}.chain: `{}` is not in [chains]", agent.chain)
        });
    }
    for (name, provider) in &settings.providers {
        let own = (format!("providers.{name}.base_url"), &provider.base_url);
        let endpoints = provider.endpoints.iter();
        let others =
            endpoints.map(|(label, at)| (format!("providers.{name}.endpoints.{label}.base_url"), &at.base_url));
        let needs_own = provider.endpoints.is_empty() || !provider.base_url.is_empty();
        for (path, url) in needs_own.then_some(own).into_iter().chain(others) {
            f.require(url.starts_with("http://") || url.starts_with("https://"), || {
                format!("{path} = \"{url}\": must begin with http:// or https://")
            });
        }
        f.require(provider.endpoints.is_empty() || provider.base_url.is_empty(), || {
            format!("providers.{name}: name either base_url or endpoints, not both")
        });
        for (label, endpoint) in &provider.endpoints {
            f.range(&format!("providers.{name}.endpoints.{label}.weight"), endpoint.weight, 1, 1_000);
        }
        f.require(!provider.breaker_count.is_empty(), || {
            format!("providers.{name}.breaker_count: must name at least one outcome")
        });
    }
    for (exit, model) in &settings.models {
        let path = |key: &str| format!("models.\"{}/{}\".{key}", exit.provider, exit.model);
        f.require(settings.providers.contains_key(&exit.provider), || {
            format!("{}: provider `{}` is not in [providers]", path("*"), exit.provider)
        });
        let first_token = model.first_token.unwrap_or(settings.gateway.first_token);
        let total = model.total.unwrap_or(settings.gateway.total);
        f.require(first_token < total, || format!("{}: must be less than its total_ms", path("first_token_ms")));
        f.require(first_token <= settings.gateway.time_box, || {
            format!("{}: must be at most gateway.time_box_ms", path("first_token_ms"))
        });
        let timers = [("first_token_ms", model.first_token), ("idle_ms", model.idle), ("total_ms", model.total)];
        for (key, timer) in timers.into_iter().filter_map(|(key, timer)| timer.map(|timer| (key, timer))) {
            f.ms(&path(key), timer, 10, 3_600_000);
        }
        f.require(model.total.is_none_or(|total| total <= settings.worker.attempt_max), || {
            format!("{}: must be at most worker.attempt_ms_max", path("total_ms"))
        });
    }
}

/// One section of limits: its ranges, and that it names something that is there.
fn limits(name: &str, limit: &Limit, settings: &Settings, f: &mut Findings) {
    let at = |key: &str| format!("limits.{name:?}.{key}");
    for (key, value, most) in [
        ("rpm", limit.rpm, 1_000_000_000),
        ("tpm", limit.tpm, 1_000_000_000_000),
        ("input_tpm", limit.input_tpm, 1_000_000_000_000),
        ("output_tpm", limit.output_tpm, 1_000_000_000_000),
        ("ipm", limit.ipm, 1_000_000_000),
        ("rpd", limit.rpd, 1_000_000_000_000),
        ("tpd", limit.tpd, 1_000_000_000_000),
        ("largest_call_tokens", limit.largest_call_tokens, 1_000_000_000),
    ] {
        f.range(&at(key), value, 0, most);
    }
    if let Some(burst) = limit.burst {
        f.ms(&at("burst_ms"), burst, 100, 57_000);
    }
    if limit.carve == Some(Carve::LargestCall) {
        f.require(limit.largest_call_tokens > 0, || {
            format!("{} = \"largest_call\": name the tokens of that call in largest_call_tokens", at("carve"))
        });
        let least = [limit.tpm, limit.input_tpm, limit.output_tpm].into_iter().filter(|tokens| *tokens > 0).min();
        f.require(least.is_none_or(|least| limit.largest_call_tokens < least), || {
            format!(
                "{} = {}: must be less than every limit of tokens",
                at("largest_call_tokens"),
                limit.largest_call_tokens
            )
        });
    }
    // A limit that matches nothing would be shown and never enforced.
    let provider = name.split_once('/').map_or(name, |(provider, _)| provider);
    f.require(name == "default" || settings.providers.contains_key(provider), || {
        format!("limits.{name:?}: `{provider}` is not in [providers]")
    });
    let mut hops = settings.chains.values().flat_map(|chain| &chain.hops);
    let is_served = |hop: &Hop| name.split_once('/') == Some((hop.exit.provider.as_str(), hop.exit.model.as_str()));
    f.require(!name.contains('/') || hops.any(is_served), || {
        format!("limits.{name:?}: no chain has this provider/model, so nothing would be limited")
    });
}

fn is_name(text: &str, most: usize) -> bool {
    !text.is_empty()
        && text.len() <= most
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}
