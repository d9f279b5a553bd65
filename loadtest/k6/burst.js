// VUS users open their WebSocket first, then all submit at the same instant. Everyone is admitted and succeeds.
//   VUS=100  AGENT=slow-3s
import { Task, laws, summary, summaryTrendStats, zero } from './penstock.js';

const VUS = Number(__ENV.VUS || 100);
const AGENT = __ENV.AGENT || 'slow-3s';
const LEAD_MS = 2000 + 5 * VUS; // time for all sockets to stand

export const options = {
  scenarios: { burst: { executor: 'per-vu-iterations', vus: VUS, iterations: 1, maxDuration: '2m' } },
  summaryTrendStats,
  thresholds: {
    ...laws,
    submitted: [`count==${VUS}`],
    admitted: [`count==${VUS}`],
    succeeded: [`count==${VUS}`],
  },
};

export const setup = () => ({ start: Date.now() + LEAD_MS });

export default function ({ start }) {
  zero();
  const task = new Task(AGENT, 'Tell me something.');
  task.connect(() => setTimeout(() => task.submit(), Math.max(0, start - Date.now())));
}

export const handleSummary = summary('burst');
