// The stock HttpAgent of the official client on POST /api/agui/{agent}; only its fetch is tapped, to keep the frames.
import { HttpAgent } from '@ag-ui/client';

import { headers, url } from './system.mjs';

export function httpAgent({ name = 'assistant', ...config } = {}) {
  const agent = new HttpAgent({
    url: `${url}/api/agui/${name}`,
    headers: { Authorization: headers.Authorization },
    fetch: async (target, init) => {
      const answer = await fetch(target, init);
      const [client, tap] = answer.body.tee();
      agent.tapped = keepFrames(tap, agent.frames);
      return new Response(client, answer);
    },
    ...config,
  });
  agent.frames = [];
  return agent;
}

async function keepFrames(body, frames) {
  let text = '';
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const blocks = text.split('\n\n');
    text = blocks.pop();
    for (const block of blocks) {
      const data = block.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart());
      if (data.length) frames.push(data.join('\n'));
    }
  }
}
