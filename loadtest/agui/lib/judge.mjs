// Runs an agent of the official client and holds what it saw to the protocol: its own pipeline accepts the run, every frame
// fits the strict schema, not one warning, exactly one terminal event, and it is the last.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';

import { EventSchemas } from '@ag-ui/core/schemas';

// Nothing else in these tests prints, so any word on the console is the client's.
const warnings = [];
for (const level of ['warn', 'error']) console[level] = (...words) => warnings.push(words.join(' '));

const TERMINAL = ['RUN_FINISHED', 'RUN_ERROR'];

// Runs `agent` on a prompt; resolves with what the run showed: frames, outcome, final text.
export async function judged(agent, prompt, { runId = randomUUID(), start = 'runAgent', onEvent } = {}) {
  const seen = { runId, outcome: undefined, error: undefined };
  if (prompt) agent.addMessage({ id: randomUUID(), role: 'user', content: prompt });
  await agent[start]({ runId }, {
    onEvent: ({ event }) => void onEvent?.(event),
    onRunFinishedEvent: ({ outcome }) => void (seen.outcome = outcome),
    onRunErrorEvent: ({ event }) => void (seen.error = event),
  });
  await agent.tapped;
  assert.deepEqual(warnings, [], 'the client warned');
  seen.events = agent.frames.map((frame) => JSON.parse(frame));
  for (const event of seen.events) strict(event);
  const types = seen.events.map(({ type }) => type);
  assert.deepEqual(types.filter((type) => TERMINAL.includes(type)).length, 1, `one terminal event in ${types}`);
  assert.ok(TERMINAL.includes(types.at(-1)), `the terminal event is the last in ${types}`);
  seen.text = agent.messages.filter(({ role }) => role === 'assistant').map(({ content }) => content).join('\n');
  return seen;
}

// The schema accepts the event and strips nothing from it.
function strict(event) {
  const read = EventSchemas.safeParse(event);
  assert.ok(read.success, `${JSON.stringify(event)}: ${read.error}`);
  assert.deepEqual(read.data, event, 'the schema does not know all of the event');
}
