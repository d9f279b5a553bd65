// Every kind of ending, over every transport.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';

import { httpAgent } from '../lib/http_agent.mjs';
import { judged } from '../lib/judge.mjs';
import { PenstockAgent } from '../lib/penstock_agent.mjs';
import { cancel, fake, hasStatus, killWorker, mend, read, slots, submit } from '../lib/system.mjs';

const transports = {
  'a WebSocket opened before the POST': () => new PenstockAgent({ connect: 'before' }),
  'a WebSocket opened after the POST': () => new PenstockAgent({ connect: 'after' }),
  'the stock HttpAgent': () => httpAgent(),
};
const kinds = ({ events }) => new Set(events.map(({ type }) => type));
const once = (type, act) => {
  let done = false;
  return (event) => {
    if (event.type === type && !done) {
      done = true;
      act(event);
    }
  };
};

for (const [transport, agent] of Object.entries(transports)) {
  test(`an answer arrives over ${transport}`, { timeout: 30_000 }, async () => {
    const seen = await judged(agent(), fake({ first_ms: 50, gap_ms: 5, chunks: 40 }));
    assert.equal(seen.outcome, 'success');
    assert.ok(seen.text.length > 0);
    assert.ok(kinds(seen).has('TEXT_MESSAGE_CONTENT'));
    assert.equal((await read(seen.runId)).body.status, 'succeeded');
  });

  test(`a task cancelled before its start ends as cancelled over ${transport}`, { timeout: 30_000 }, async () => {
    const blockers = await Promise.all(Array.from({ length: slots }, () => submit({ input: fake({ total_ms: 20_000, chunks: 40 }) })));
    for (const { body } of blockers) await hasStatus(body.task_id, 'running');
    const runId = randomUUID();
    const run = judged(agent(), fake({ chunks: 3 }), { runId });
    await hasStatus(runId, 'queued');
    assert.ok((await cancel(runId)).status < 300);
    const seen = await run;
    assert.equal(seen.outcome, 'cancelled');
    assert.equal(seen.text, '');
    for (const { body } of blockers) await cancel(body.task_id);
    for (const { body } of blockers) await hasStatus(body.task_id, 'cancelled');
  });

  test(`a task cancelled in the middle of its answer ends as cancelled over ${transport}`, { timeout: 30_000 }, async () => {
    const runId = randomUUID();
    const onEvent = once('TEXT_MESSAGE_CONTENT', () => cancel(runId));
    const seen = await judged(agent(), fake({ gap_ms: 50, chunks: 400 }), { runId, onEvent });
    assert.equal(seen.outcome, 'cancelled');
    assert.ok(kinds(seen).has('TEXT_MESSAGE_END'), 'the open message was closed');
    await hasStatus(runId, 'cancelled');
  });

  test(`a provider's error ends the run as an error over ${transport}`, { timeout: 60_000 }, async () => {
    const seen = await judged(agent(), fake({ status: 400 }));
    assert.match(seen.error.code, /^penstock\./);
    assert.equal(seen.outcome, undefined);
    await hasStatus(seen.runId, 'failed');
  });
}

test('a worker killed in the middle of an answer costs a retry, and no transport sees more than one run', { timeout: 90_000 }, async () => {
  const agents = Object.values(transports).map((agent) => agent());
  const started = agents.map(() => latch());
  const runs = agents.map((agent, i) =>
    judged(agent, fake({ gap_ms: 100, chunks: 60 }), { onEvent: once('TEXT_MESSAGE_CONTENT', () => started[i].resolve()) }),
  );
  await Promise.all(started.map(({ promise }) => promise));
  killWorker();
  mend();
  for (const seen of await Promise.all(runs)) {
    assert.equal(seen.outcome, 'success');
    assert.equal(seen.events.filter(({ type }) => type === 'RUN_STARTED').length, 1);
    assert.equal(seen.events.filter(({ type, name }) => type === 'CUSTOM' && name === 'penstock.retry').length, 1);
    assert.equal((await read(seen.runId)).body.status, 'succeeded');
  }
});

function latch() {
  const out = {};
  out.promise = new Promise((resolve) => (out.resolve = resolve));
  return out;
}
