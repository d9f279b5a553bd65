// AG-UI over Penstock's WebSocket: a transport for the official client, which judges what comes out of it.
//
// One bare event a frame; the cursor rides in metadata.penstock (`id` to resume from, `seq` dense). A socket that closes
// before the terminal event was cut: the transport dials again with ?after=<id>.
import { AbstractAgent } from '@ag-ui/client';
import { Observable } from 'rxjs';
import WebSocket from 'ws';

import { headers, submit, url, wsUrl } from './system.mjs';

// Closes after which dialling again is right: cut, restart, too slow.
const AGAIN = new Set([1005, 1006, 1012, 4408]);

export class PenstockAgent extends AbstractAgent {
  // `name` of the agent in the settings; `connect` 'before' or 'after' the POST; `origin` of the sockets, to go through a proxy.
  constructor({ name = 'assistant', connect = 'before', origin = wsUrl, ...config } = {}) {
    super(config);
    Object.assign(this, { name, order: connect, origin, frames: [], dials: 0 });
  }

  run(input) {
    const post = async () => {
      const answer = await submit({ agent: this.name, task_id: input.runId, thread_id: input.threadId, input: input.messages });
      if (answer.status !== 202) throw new Error(`POST ${url}/api/task: ${answer.status} ${JSON.stringify(answer.body)}`);
    };
    return this.events(input.runId, post);
  }

  // Late join of a run that somebody else has posted.
  connect(input) {
    return this.events(input.runId, async () => {});
  }

  events(id, post) {
    return new Observable((subscriber) => {
      let after;
      let seq;
      let socket;
      let stopped = false;
      const fail = (error) => {
        stopped = true;
        subscriber.error(error);
      };
      const dial = (opened) => {
        this.dials += 1;
        socket = new WebSocket(`${this.origin}/api/task/${id}/ws${after ? `?after=${after}` : ''}`, { headers });
        let ended = false;
        socket.on('open', () => opened?.());
        socket.on('message', (data) => {
          if (stopped) return;
          const frame = data.toString();
          if (frame.startsWith(':')) return;
          const event = JSON.parse(frame);
          this.frames.push(frame);
          if (ended) return fail(new Error(`${event.type} after the terminal event`));
          const cursor = event.metadata?.penstock;
          if (!cursor?.id || !Number.isInteger(cursor.seq)) return fail(new Error(`no cursor in ${frame}`));
          if (seq !== undefined && cursor.seq !== seq + 1) return fail(new Error(`seq ${cursor.seq} follows ${seq}`));
          seq = cursor.seq;
          after = cursor.id;
          ended = event.type === 'RUN_FINISHED' || event.type === 'RUN_ERROR';
          subscriber.next(event);
        });
        socket.on('error', () => {}); // a close follows
        socket.on('close', (code) => {
          if (stopped) return;
          if (ended && code === 1000) subscriber.complete();
          else if (!ended && AGAIN.has(code)) setTimeout(dial, 10);
          else fail(new Error(`socket closed with ${code}, ${ended ? 'after' : 'before'} the end`));
        });
      };
      if (this.order === 'before') dial(() => post().catch(fail));
      else post().then(() => dial(), fail);
      return () => {
        stopped = true;
        socket?.terminate();
      };
    });
  }
}
