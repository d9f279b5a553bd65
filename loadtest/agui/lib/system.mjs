// The running system under test, as scripts/conformance hands it over in the environment.
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const { PENSTOCK_URL, PENSTOCK_KEY, PENSTOCK_PID_DIR } = process.env;
if (!PENSTOCK_URL || !PENSTOCK_KEY) throw new Error('PENSTOCK_URL and PENSTOCK_KEY are not set: run `make conformance`');

export const url = PENSTOCK_URL;
export const wsUrl = PENSTOCK_URL.replace(/^http/, 'ws');
export const slots = Number(process.env.SLOTS);
export const headers = { Authorization: `Bearer ${PENSTOCK_KEY}`, 'Content-Type': 'application/json' };

// A prompt that tells the fake provider how to behave: fake({ first_ms: 200, gap_ms: 20, chunks: 50 }).
export const fake = (how) => `Tell me something.\n[[fake: ${Object.entries(how).map(([key, value]) => `${key}=${value}`).join(',')}]]`;

export async function call(method, path, body) {
  const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await answer.text();
  return { status: answer.status, body: text ? JSON.parse(text) : undefined };
}

export const submit = (task) => call('POST', '/api/task', { agent: 'assistant', task_id: randomUUID(), ...task });
export const read = (id) => call('GET', `/api/task/${id}`);
export const cancel = (id) => call('DELETE', `/api/task/${id}`);

// Waits until `claim` holds, at most `wait_ms`.
export async function until(what, claim, wait_ms = 10_000) {
  const deadline = Date.now() + wait_ms;
  for (;;) {
    const found = await claim();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`not within ${wait_ms} ms: ${what}`);
    await sleep(20);
  }
}

export const hasStatus = (id, status) => until(`task ${id} is ${status}`, async () => (await read(id)).body.status === status);

export const killWorker = () => process.kill(Number(readFileSync(`${PENSTOCK_PID_DIR}/worker-1`, 'utf8').split(' ')[0]), 'SIGKILL');

// Starts what does not run any more.
export function mend() {
  const done = spawnSync('../../scripts/system', ['start'], { encoding: 'utf8' });
  if (done.status !== 0) throw new Error(`scripts/system start: ${done.stderr}`);
}
