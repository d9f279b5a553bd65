// A reader may come early, late, or again and again: it gets the same bytes.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';

import { cuttingProxy } from '../lib/cutting_proxy.mjs';
import { judged } from '../lib/judge.mjs';
import { PenstockAgent } from '../lib/penstock_agent.mjs';
import { fake, wsUrl } from '../lib/system.mjs';

test('twenty forced cuts in one answer give the same final text', { timeout: 60_000 }, async () => {
  const proxy = await cuttingProxy(wsUrl, { cuts: 20, bytes: () => 400 + Math.floor(Math.random() * 1500) });
  const runId = randomUUID();
  const cut = new PenstockAgent({ origin: proxy.origin });
  const whole = new PenstockAgent();
  // The whole reader posts; the cut one joins the same run.
  const [seen, truth] = await Promise.all([
    judged(cut, undefined, { runId, start: 'connectAgent' }),
    judged(whole, fake({ gap_ms: 30, chunks: 300 }), { runId }),
  ]);
  proxy.close();
  assert.equal(proxy.cuts, 20);
  assert.ok(cut.dials > 20, `${cut.dials} dials`);
  assert.equal(truth.outcome, 'success');
  assert.equal(seen.text, truth.text);
  assert.deepEqual(cut.frames, whole.frames);
});

test('readers before, during and after a run get the same frames', { timeout: 60_000 }, async () => {
  const runId = randomUUID();
  const early = new PenstockAgent({ connect: 'before' });
  const joiners = [];
  let contents = 0;
  const onEvent = ({ type }) => {
    if (type === 'TEXT_MESSAGE_CONTENT' && ++contents === 10) {
      const late = new PenstockAgent();
      joiners.push([late, judged(late, undefined, { runId, start: 'connectAgent' })]);
    }
  };
  const truth = await judged(early, fake({ gap_ms: 30, chunks: 60 }), { runId, onEvent });
  const after = new PenstockAgent();
  joiners.push([after, judged(after, undefined, { runId, start: 'connectAgent' })]);
  assert.equal(joiners.length, 2);
  for (const [agent, run] of joiners) {
    const seen = await run;
    assert.deepEqual(agent.frames, early.frames);
    assert.equal(seen.text, truth.text);
  }
});

test('a WebSocket opened after the POST gets what one opened before gets', { timeout: 30_000 }, async () => {
  const shape = async (connect) => {
    const { events } = await judged(new PenstockAgent({ connect }), fake({ gap_ms: 40, chunks: 5 }));
    return events.map(({ type, metadata }) => [type, metadata.penstock.seq]);
  };
  assert.deepEqual(await shape('after'), await shape('before'));
});
