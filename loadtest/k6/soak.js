// Steady arrivals: RATE tasks a second for DURATION, each with its own socket. Every task is admitted and succeeds.
//   RATE=20  DURATION=5m  AGENT=assistant
import { Task, laws, summary, summaryTrendStats, zero } from './penstock.js';

const RATE = Number(__ENV.RATE || 20);
const AGENT = __ENV.AGENT || 'assistant';

export const options = {
  scenarios: {
    soak: { executor: 'constant-arrival-rate', rate: RATE, timeUnit: '1s', duration: __ENV.DURATION || '5m', preAllocatedVUs: RATE * 5, maxVUs: RATE * 20, gracefulStop: '1m' },
  },
  summaryTrendStats,
  thresholds: { ...laws, rejected: ['count==0'], failed: ['count==0'], dropped_iterations: ['count==0'] },
};

export default function () {
  zero();
  const task = new Task(AGENT, 'Tell me something.');
  task.connect(() => task.submit());
}

export const handleSummary = summary('soak');
