// Penstock for the queue bench's burst.js: its own API instead of the peers' shared contract.
// A task's id must be a UUID, so the bench's short names are hashed into one.
import crypto from 'k6/crypto';

const KEY = __ENV.ADAPTER === 'penstock' ? open(__ENV.PENSTOCK_KEY_FILE).trim() : '';
const HEADERS = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };

function uuid(name) {
  const hex = crypto.sha256(name, 'hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

export const penstock = {
  wsUrl: (base, id) => `ws://${base}/api/task/${uuid(id)}/ws`,
  wsParams: { headers: HEADERS },
  task: (base, id, sleepMs) => ({
    url: `http://${base}/api/task`,
    // The peers' job sends one event and sleeps: so does this model, and then says one word.
    body: JSON.stringify({ task_id: uuid(id), agent: 'instant', input: `go [[fake: first_ms=${sleepMs},chunks=1]]` }),
    headers: HEADERS,
  }),
  // RUN_STARTED comes from the worker: it is the first event. Only a success counts as done.
  event: (text) => {
    const { type, outcome } = JSON.parse(text);
    if (type === 'RUN_STARTED') return { kind: 'progress' };
    if (type === 'RUN_FINISHED' && (!outcome || outcome.type === 'success')) return { kind: 'done' };
    return { kind: null };
  },
};
