// How the load scripts speak to Penstock, and what they hold each event stream to.
//
// BASE_URLS   front doors, separated by spaces; virtual users are spread over them
// PENSTOCK_KEY  an API key with the scopes submit and read
import http from 'k6/http';
import { WebSocket } from 'k6/experimental/websockets'; // k6 1.1.0 has no k6/websockets yet
import { Counter, Trend } from 'k6/metrics';

const DOORS = (__ENV.BASE_URLS || __ENV.PENSTOCK_URL || 'http://127.0.0.1:8080').split(' ');
const HEADERS = { Authorization: `Bearer ${__ENV.PENSTOCK_KEY}`, 'Content-Type': 'application/json' };

export const door = () => DOORS[__VU % DOORS.length];
export const taskId = () => crypto.randomUUID();

export const trends = {
  first_ms: new Trend('first_ms'), // POST sent → first event on the socket
  accepted_ms: new Trend('accepted_ms'), // POST on its connection → 202, by k6's own clock around the request
  rejected_ms: new Trend('rejected_ms'), // the same for 429
  connect_ms: new Trend('connect_ms'), // dial → socket open
};
export const counts = {};
for (const name of ['submitted', 'admitted', 'rejected', 'refused', 'without_retry_after', 'succeeded', 'cancelled', 'failed', 'broken']) {
  counts[name] = new Counter(name);
}

// What must hold in every run, whatever the machine: each answer is a 202 or a 429, each 429 says when to come back, each
// stream keeps its rules, each admitted task has ended.
export const laws = {
  refused: ['count==0'],
  without_retry_after: ['count==0'],
  broken: ['count==0'],
};

// Counters that were never added to have no row, and then no threshold is judged: every script calls this once.
export function zero() {
  for (const name of Object.keys(counts)) counts[name].add(0);
}

// One task: its socket, its POST, its stream. Its `outcome` is set once, when nothing more can come:
// 'succeeded' | 'cancelled' | 'failed' | 'rejected' | 'refused' | 'broken'.
export class Task {
  constructor(agent, input) {
    this.id = taskId();
    this.door = door();
    this.body = JSON.stringify({ agent, input, task_id: this.id });
    this.stream = new Stream(this.id);
    this.outcome = null;
  }

  // Opens the socket; `opened` is called once it stands.
  connect(opened) {
    const dialled = Date.now();
    this.socket = new WebSocket(`${this.door.replace('http', 'ws')}/api/task/${this.id}/ws`, null, { headers: HEADERS });
    this.socket.onopen = () => {
      trends.connect_ms.add(Date.now() - dialled);
      opened();
    };
    this.socket.onmessage = (message) => this.received(message.data);
    this.socket.onerror = (error) => this.end('broken', `socket: ${error.error}`);
    this.socket.onclose = (close) => {
      if (!this.outcome) this.end('broken', `socket closed with ${close && close.code} before the end`);
    };
  }

  // Sends the POST; `answered(status)` is called with its answer.
  submit(answered) {
    counts.submitted.add(1);
    this.sent = Date.now();
    const request = { headers: HEADERS, timeout: '60s', responseCallback: http.expectedStatuses(202, 429) };
    return http.asyncRequest('POST', `${this.door}/api/task`, this.body, request).then((answer) => {
      const took = answer.timings.duration;
      if (answer.status === 202) {
        counts.admitted.add(1);
        trends.accepted_ms.add(took);
        this.admitted = true;
      } else if (answer.status === 429) {
        counts.rejected.add(1);
        trends.rejected_ms.add(took);
        if (!(Number(answer.headers['Retry-After']) >= 1)) counts.without_retry_after.add(1);
        this.end('rejected');
      } else {
        counts.refused.add(1);
        this.end('refused', `${answer.status} ${answer.body}`);
      }
      if (answered) answered(answer.status);
    });
  }

  cancel() {
    return http.asyncRequest('DELETE', `${this.door}/api/task/${this.id}`, null, { headers: HEADERS });
  }

  received(text) {
    const now = Date.now();
    if (text.startsWith(':')) return; // keep-alive for pages
    const broken = this.stream.take(JSON.parse(text));
    if (this.stream.events === 1) trends.first_ms.add(now - this.sent);
    if (broken) this.end('broken', broken);
    else if (this.stream.outcome) this.end(this.stream.outcome);
  }

  end(outcome, why) {
    if (this.outcome) {
      // A frame after the terminal event comes here: the socket is held open a moment to see it.
      if (outcome === 'broken') this.report(outcome, why);
      return;
    }
    this.outcome = outcome;
    this.report(outcome, why);
    if (this.socket) setTimeout(() => this.socket.close(), this.stream.outcome ? 50 : 0);
  }

  report(outcome, why) {
    if (outcome in counts && outcome !== 'rejected' && outcome !== 'refused') counts[outcome].add(1);
    if (why) console.error(`task ${this.id}: ${outcome}: ${why}`);
  }
}

// The rules of one AG-UI stream that need no schema: starts with RUN_STARTED (or RUN_ERROR), `seq` is dense, what is opened
// is closed once, one terminal event and nothing behind it.
export class Stream {
  constructor(id) {
    this.id = id;
    this.events = 0;
    this.outcome = null; // 'succeeded' | 'cancelled' | 'failed'
    this.open = {};
  }

  // Takes one event; returns what is wrong with it, or nothing.
  take(event) {
    this.events += 1;
    const { type } = event;
    if (this.outcome) return `${type} after the terminal event`;
    if (this.events === 1 && type !== 'RUN_STARTED' && type !== 'RUN_ERROR') return `${type} came first`;
    if (this.events > 1 && type === 'RUN_STARTED') return 'RUN_STARTED twice';
    const seq = event.metadata && event.metadata.penstock && event.metadata.penstock.seq;
    if (!Number.isInteger(seq)) return `${type} has no metadata.penstock.seq`;
    if (this.seq !== undefined && seq !== this.seq + 1) return `seq ${seq} follows ${this.seq}`;
    this.seq = seq;
    if (event.runId !== undefined && event.runId !== this.id) return `${type} of run ${event.runId}`;
    return this.balance(event) || this.terminal(event);
  }

  balance({ type, messageId, stepName }) {
    const [, lane, verb] = /^(TEXT_MESSAGE|REASONING_MESSAGE|STEP|REASONING)_(START|STARTED|CONTENT|END|FINISHED)$/.exec(type) || [];
    if (!lane) return undefined;
    const key = `${lane} ${messageId || stepName}`;
    if (verb.startsWith('START')) {
      if (this.open[key]) return `${key} opened twice`;
      this.open[key] = true;
    } else if (!this.open[key]) return `${type} of ${key}, which is not open`;
    else if (verb !== 'CONTENT') delete this.open[key];
    return undefined;
  }

  terminal({ type, outcome }) {
    if (type === 'RUN_ERROR') this.outcome = 'failed';
    if (type !== 'RUN_FINISHED') return undefined;
    const open = Object.keys(this.open);
    if (open.length) return `RUN_FINISHED while ${open} is open`;
    this.outcome = outcome && outcome.type === 'cancelled' ? 'cancelled' : 'succeeded';
    return undefined;
  }
}

// One JSON line: counts, and min, median, percentiles of each trend; `holds` tells which thresholds held.
export function summary(script) {
  return (data) => {
    const out = { script };
    for (const name of Object.keys(counts)) out[name] = data.metrics[name] ? data.metrics[name].values.count : 0;
    for (const name of Object.keys(trends)) if (data.metrics[name]) out[name] = data.metrics[name].values;
    const endless = out.admitted - out.succeeded - out.cancelled - out.failed;
    out.broken_laws = endless ? [`${endless} admitted tasks have no end`] : [];
    for (const [name, metric] of Object.entries(data.metrics)) {
      for (const [law, { ok }] of Object.entries(metric.thresholds || {})) if (!ok) out.broken_laws.push(`${name} ${law}`);
    }
    return { stdout: `${JSON.stringify(out)}\n` };
  };
}

export const summaryTrendStats = ['count', 'min', 'med', 'p(95)', 'p(99)', 'max'];
