import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, expect, it } from "vitest";
import { frame, newQueue } from "#tests/support/frames.ts";
import { connectForeign, submit } from "#tests/support/grpc-client.ts";
import { startTestIngest, type TestIngest } from "#tests/support/ingest.ts";

const open: Socket[] = [];
afterEach(() => {
  for (const socket of open.splice(0)) socket.destroy();
});

/** A TCP connection that starts no handshake. */
const connectBare = async ({ port }: TestIngest) => {
  const socket = connect(port, "127.0.0.1");
  open.push(socket);
  socket.on("error", () => undefined);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  await Promise.race([once(socket, "connect").catch(() => undefined), closed]);
  socket.resume();
  return { closed };
};

const submitOnce = async (test: TestIngest) => {
  const client = connectForeign(test, await test.client({}));
  const { error } = await submit(client, frame(newQueue(), 1, 1));
  client.close();
  return error;
};

it("closes an unfinished handshake after its timeout, whatever the client sends, and logs its address", async () => {
  const test = await startTestIngest({ listener: { handshakes: { timeoutMs: 200 } } });
  const silent = await connectBare(test);
  const slow = await connectBare(test);
  // Node's own timeout would start again with each byte of a record that never ends.
  const [, socket] = open;
  socket?.write(Buffer.of(0x16, 0x03, 0x01, 0x40, 0x00));
  const drip = setInterval(() => socket?.write(Buffer.of(1)), 20);
  await Promise.all([silent.closed, slow.closed]);
  clearInterval(drip);
  expect(test.log.lines).toContainEqual({
    level: "warn",
    message: "connection refused",
    fields: { remote_address: "127.0.0.1", reason: "the TLS handshake was not complete in time" },
  });
  expect(await submitOnce(test)).toBeUndefined();
  await test.close();
});

it("closes what is no TLS at once", async () => {
  const test = await startTestIngest();
  const { closed } = await connectBare(test);
  open[0]?.write("GET / HTTP/1.1\r\n\r\n");
  await closed;
  await test.close();
});

it("refuses an address with too many unfinished handshakes, and serves it again when they have ended", async () => {
  const test = await startTestIngest({ listener: { handshakes: { unfinishedMax: 3 } } });
  const bare = [await connectBare(test), await connectBare(test), await connectBare(test)];
  await (await connectBare(test)).closed;
  for (const socket of open) socket.destroy();
  await Promise.all(bare.map(({ closed }) => closed));
  await expect.poll(() => submitOnce(test)).toBeUndefined();
  await test.close();
});

it("refuses an address that starts handshakes faster than its rate", async () => {
  let now = 0;
  const clock = { monotonic: () => now };
  const test = await startTestIngest({
    listener: { clock, handshakes: { burst: 5, perSecond: 1 } },
  });
  for (let index = 0; index < 5; index++) await connectBare(test);
  await (await connectBare(test)).closed;
  now += 1_000;
  expect(await submitOnce(test)).toBeUndefined();
  await test.close();
});

it("completes every handshake of a burst, and resets those beyond the ones that wait", async () => {
  const limits = { atOnceMax: 1, slowMs: 60_000, waitingMax: 4 };
  const test = await startTestIngest({ listener: { handshakes: limits } });
  const all = await Promise.all(Array.from({ length: 4 }, () => submitOnce(test)));
  expect(all).toEqual(all.map(() => undefined));
  for (let index = 0; index < 5; index++) await connectBare(test);
  await (await connectBare(test)).closed;
  expect(test.log.lines).toContainEqual({
    level: "warn",
    message: "connection refused",
    fields: { remote_address: "127.0.0.1", reason: "too many TLS handshakes at once" },
  });
  for (const socket of open) socket.destroy();
  await expect.poll(() => submitOnce(test)).toBeUndefined();
  await test.close();
});

it("closes with the listener, at once, a connection whose handshake is unfinished", async () => {
  const test = await startTestIngest();
  const { closed } = await connectBare(test);
  await test.listener.close(60_000);
  await closed;
  await test.close();
});
