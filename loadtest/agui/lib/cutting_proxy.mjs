// A TCP proxy that cuts: each connection is dropped, without goodbye, once `bytes()` of it have passed to the client.
import { connect, createServer } from 'node:net';
import { once } from 'node:events';

export async function cuttingProxy(target, { cuts, bytes }) {
  const { hostname, port } = new URL(target);
  const proxy = { cuts: 0 };
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    let left = proxy.cuts < cuts ? bytes() : Infinity;
    const drop = () => {
      client.destroy();
      upstream.destroy();
    };
    client.pipe(upstream);
    upstream.on('data', (chunk) => {
      if (chunk.length < left) {
        left -= chunk.length;
        client.write(chunk);
        return;
      }
      proxy.cuts += 1;
      client.write(chunk.subarray(0, left), drop);
      left = Infinity;
      upstream.pause();
    });
    for (const side of [client, upstream]) side.on('error', drop).on('close', drop);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy.origin = `ws://127.0.0.1:${server.address().port}`;
  proxy.close = () => server.close();
  return proxy;
}
