// VUS users submit at the same instant to a queue of LIMIT with SLOTS slots. Between LIMIT and LIMIT + SLOTS are admitted
// (as many as slots may leave the queue while the burst lasts), never more; the others get 429 with Retry-After.
//   VUS=100  AGENT=slow-30s  LIMIT=8  SLOTS=4  CANCEL=1 (cancel what was admitted once every answer is in)
import { Task, laws, summary, summaryTrendStats, zero } from './penstock.js';

const VUS = Number(__ENV.VUS || 100);
const AGENT = __ENV.AGENT || 'slow-30s';
const LIMIT = Number(__ENV.LIMIT || 8);
const SLOTS = Number(__ENV.SLOTS || 4);
const CANCEL = Boolean(__ENV.CANCEL);
const CONNECT_FIRST = VUS <= 100; // a thousand sockets beside a thousand requests would measure k6
const LEAD_MS = 2000 + (CONNECT_FIRST ? 5 * VUS : 0);
const CANCEL_AFTER_MS = 8000;

export const options = {
  scenarios: { overload: { executor: 'per-vu-iterations', vus: VUS, iterations: 1, maxDuration: '4m' } },
  summaryTrendStats,
  thresholds: {
    ...laws,
    submitted: [`count==${VUS}`],
    admitted: [`count>=${LIMIT}`, `count<=${LIMIT + SLOTS}`],
    rejected: [`count>=${VUS - LIMIT - SLOTS}`],
    failed: ['count==0'],
  },
};

export const setup = () => ({ start: Date.now() + LEAD_MS });

export default function ({ start }) {
  zero();
  const task = new Task(AGENT, 'Tell me something.');
  const submit = () =>
    task.submit((status) => {
      if (status !== 202) return;
      if (!CONNECT_FIRST) task.connect(() => {});
      if (CANCEL) setTimeout(() => task.cancel(), Math.max(0, start + CANCEL_AFTER_MS - Date.now()));
    });
  const atStart = () => setTimeout(submit, Math.max(0, start - Date.now()));
  if (CONNECT_FIRST) task.connect(atStart);
  else atStart();
}

export const handleSummary = summary('overload');
