import { spawnSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { afterEach, expect, it } from "vitest";
import { clientExtensions, createTestCa, type TestCa } from "#scripts/lab/ca/test-pki.ts";
import { closeAccounts, refusalsOf } from "#tests/collector/support/queue-accounts.ts";
import { startTestSyslog } from "#tests/collector/support/syslog.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createServerTls } from "#tests/fakes/connect-proxy.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { testRecord } from "#tests/support/queue.ts";
import { createStoring } from "./storing.ts";

type TestSyslog = Awaited<ReturnType<typeof startTestSyslog>>;
const opened: TestSyslog[] = [];
const start = async (...settings: Parameters<typeof startTestSyslog>) => {
  const syslog = await startTestSyslog(...settings);
  opened.push(syslog);
  return syslog;
};
afterEach(async () => {
  for (const { close } of opened.splice(0)) await close();
});
const [queueFull, tooLarge, malformed] = [1, 2, 3] as const;
const refused = (reason: number, records: number) => [[reason, "log_line", "syslog", records]];
const numbered = (count: number) => Array.from({ length: count }, (_, index) => `m${index}`);
const lines = (texts: readonly string[]) => texts.map((text) => `<13>${text}\n`).join("");

it("stores messages of RFC 5424 and 3164 with the sender's address", async () => {
  const syslog = await start();
  const sender = await syslog.connect();
  sender.write('<34>1 - h app - - [a b="c"] five\n<13>app: three\nfree text \xff\n', "latin1");
  await expect.poll(() => syslog.records().length).toBe(3);
  expect(syslog.texts()).toEqual(["five", "three", "free text \ufffd"]);
  const sent = { "client.address": "127.0.0.1", "network.transport": "tcp" };
  expect(
    syslog.records().map(({ kind, source, attributes }) => ({ kind, source, ...attributes })),
  ).toEqual([
    {
      kind: "log_line",
      source: "syslog",
      ...sent,
      "syslog.facility.code": "4",
      "syslog.severity.code": "2",
      "syslog.version": "1",
      "syslog.hostname": "h",
      "syslog.appname": "app",
      "syslog.structured_data.a.b": "c",
    },
    {
      kind: "log_line",
      source: "syslog",
      ...sent,
      "syslog.facility.code": "1",
      "syslog.severity.code": "5",
      "syslog.appname": "app",
    },
    { kind: "log_line", source: "syslog", ...sent },
  ]);
  expect(syslog.counters()).toMatchObject({ messages: 3, unparsed: 1, invalid_characters: 1 });
});

it("reads no more of a connection while the queue is full, and loses nothing", async () => {
  const syslog = await start({ queueOptions: { maxDiskUsageBytes: 300_000 } });
  let waiting = 0;
  let waitingMost = 0;
  syslog.appendBy(async (...call) => {
    waitingMost = Math.max(waitingMost, ++waiting);
    return await syslog.queue.append(...call).finally(() => waiting--);
  });
  const texts = numbered(12_000).map((text) => text.padEnd(100, "."));
  const sender = await syslog.connect();
  const written = new Promise((resolve) => sender.end(lines(texts), () => resolve(undefined)));
  await expect.poll(() => syslog.records().length).toBeGreaterThan(0);
  const found: string[] = [];
  await expect
    .poll(
      async () => {
        found.push(...syslog.texts());
        await syslog.queue.ack(syslog.queue.lastSequence);
        return found.length;
      },
      { interval: 1 },
    )
    .toBe(texts.length);
  await written;
  expect(found).toEqual(texts);
  // The next chunk is read once the one before is stored.
  expect(waitingMost).toBe(1);
  expect(syslog.counters()).toMatchObject({ messages: texts.length, refused: 0, dropped: 0 });
});

it("stores what senders have on their way when it stops, then ends their connections", async () => {
  const syslog = await start();
  const sender = await syslog.connect();
  const texts = numbered(5_000);
  sender.write(lines(texts));
  sender.on("end", () => sender.end());
  sender.resume();
  await syslog.source.stop();
  expect(syslog.texts()).toEqual(texts);
});

it("reads a slow sender to its end when it stops, and for ten seconds at most", async () => {
  const clock = createTestClock();
  const syslog = await start({ clock });
  const { append } = syslog.queue;
  const begun = Promise.withResolvers<void>();
  const storing = Promise.withResolvers<void>();
  syslog.appendBy(async (records, { signal } = {}) => {
    begun.resolve();
    await Promise.race([storing.promise, signal && once(signal, "abort")]);
    return append(records);
  });
  await syslog.connect();
  const sender = await syslog.connect({ allowHalfOpen: true });
  sender.write(lines(["first"]));
  sender.resume();
  await begun.promise;
  const stopped = syslog.source.stop();
  await once(sender, "end");
  await clock.advance(5_000);
  await expect.poll(() => syslog.counters()).toMatchObject({ connections: 1, refused: 0 });
  sender.end(lines(["last"]));
  storing.resolve();
  await stopped;
  expect(syslog.texts()).toEqual(["first", "last"]);
});

it("counts what it has received and cannot store when it stops", async () => {
  const clock = createTestClock();
  const syslog = await start({ clock, queueOptions: { maxDiskUsageBytes: 10_000 } });
  await syslog.queue.append([testRecord("full", 9_500)]);
  let appended = 0;
  syslog.appendBy((records, options) => {
    appended += "count" in records ? records.count : records.length;
    return syslog.queue.append(records, options);
  });
  const sender = await syslog.connect();
  sender.write(lines(["a".repeat(900), "b"]));
  await expect.poll(() => appended).toBe(2);
  const stopped = syslog.source.stop();
  await expect
    .poll(async () => {
      await clock.advance(500);
      return syslog.counters();
    })
    .toMatchObject({ refused: 2 });
  await stopped;
  expect(refusalsOf(closeAccounts(syslog.queue))).toEqual(refused(queueFull, 2));
});

it("repeats what a failing disk does not take", async () => {
  const clock = createTestClock();
  const syslog = await start({ clock });
  const { append } = syslog.queue;
  let attempts = 0;
  syslog.appendBy(async () => {
    attempts += 1;
    throw new Error("EIO");
  });
  const sender = await syslog.connect();
  sender.write(lines(["kept"]));
  await expect.poll(() => attempts).toBe(1);
  expect(syslog.source.condition?.()).toMatchObject({ code: "source_failed" });
  syslog.appendBy(append);
  await expect
    .poll(async () => {
      await clock.advance(1_000);
      return syslog.texts();
    })
    .toEqual(["kept"]);
});

it.each([
  ["too large", "99999999 <13>", tooLarge],
  ["too small", "4 <13>abc 9 ", malformed],
])(
  "O2: refuses a connection whose lengths are %s, and counts that; others go on",
  async (_, sent, reason) => {
    const syslog = await start();
    const other = await syslog.connect();
    other.write("<13>fi");
    const liar = await syslog.connect();
    liar.resume();
    liar.write(sent);
    await once(liar, "close");
    other.write("ne\n");
    await expect.poll(() => syslog.texts()).toEqual(["fine"]);
    expect(refusalsOf(closeAccounts(syslog.queue))).toEqual(refused(reason, 1));
    expect(syslog.counters()).toMatchObject({ broken_connections: 1, refused: 1 });
  },
);

it("G8: accepts up to its limit of connections, and counts those that it refuses", async () => {
  const syslog = await start({ options: { limits: { connectionsMax: 2 } } });
  const first = await syslog.connect();
  await syslog.connect();
  const third = await syslog.connect();
  third.resume();
  await once(third, "close");
  first.write(lines(["still read"]));
  await expect.poll(() => syslog.texts()).toEqual(["still read"]);
  expect(syslog.counters()).toMatchObject({ connections: 2, refused_connections: 1 });
  const message = "refused 1 connections, as others are open; let senders share them";
  expect(syslog.source.warnings?.()).toMatchObject([{ code: "connections_refused", message }]);
});

it("G8: drops the oldest incomplete messages over the limit of all together", async () => {
  const syslog = await start({ options: { limits: { heldBytesMax: 1_500 } } });
  const first = await syslog.connect();
  first.resume();
  first.write("a".repeat(1_000));
  await expect.poll(() => first.bytesWritten).toBe(1_000);
  const second = await syslog.connect();
  second.write("b".repeat(1_000));
  await once(first, "close");
  second.write("\n");
  await expect.poll(() => syslog.texts()).toEqual(["b".repeat(1_000)]);
  expect(refusalsOf(closeAccounts(syslog.queue))).toEqual(refused(tooLarge, 1));
});

it("F6: stores an incomplete message of a connection that goes quiet, with a mark", async () => {
  const clock = createTestClock();
  const syslog = await start({ clock });
  const quiet = await syslog.connect();
  const sender = await syslog.connect();
  sender.write("<13>half");
  await expect.poll(() => sender.bytesWritten).toBe(8);
  sender.on("end", () => sender.end());
  sender.resume();
  await expect
    .poll(async () => {
      await clock.advance(10_000);
      return syslog.texts();
    })
    .toEqual(["half"]);
  expect(syslog.records()[0]?.attributes).toMatchObject({ "syslog.partial": "true" });
  expect(quiet.readableEnded).toBe(false);
  expect(syslog.counters()).toMatchObject({ connections: 1 });
  quiet.resume();
  const ended = once(quiet, "end");
  await clock.advance(3_600_000);
  await ended;
});

it("receives datagrams, also of 64 KB, and says that UDP loses some", async () => {
  const syslog = await start({ config: { udp: { listen: "127.0.0.1:0" } } });
  const sender = createSocket("udp4");
  const large = `<13>${"x".repeat(65_000)}`;
  for (const text of ["<13>two\nlines\n\0", large])
    await new Promise((resolve) => sender.send(text, syslog.port("udp"), "127.0.0.1", resolve));
  await expect.poll(() => syslog.texts()).toEqual(["two\nlines", large.slice(4)]);
  expect(syslog.records()[0]?.attributes).toMatchObject({ "network.transport": "udp" });
  expect(syslog.source.warnings?.()).toMatchObject([{ code: "udp_lossy", level: "note" }]);
  sender.close();
});

it("counts the datagrams for which it has no room", async () => {
  const syslog = await start({ config: { udp: { listen: "127.0.0.1:0" } } });
  syslog.appendBy(
    (_, { signal } = {}) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason));
      }),
  );
  const sender = createSocket("udp4");
  const send = () =>
    new Promise((resolve) =>
      sender.send("y".repeat(65_000), syslog.port("udp"), "127.0.0.1", resolve),
    );
  await expect
    .poll(
      async () => {
        await send();
        return syslog.counters().refused;
      },
      { interval: 1 },
    )
    .toBe(1);
  sender.close();
});

it("G8: has room for a bounded number of messages that wait for the queue, however short they are", () => {
  const dependencies = {
    append: () => new Promise<never>(() => undefined),
    refused: () => undefined,
    clock: createTestClock(),
    log: createTestLog(),
  };
  const storing = createStoring("syslog", "auto", dependencies, AbortSignal.any([]));
  const frame = { bytes: Buffer.from("a"), isPartial: false, isContinued: false };
  let waiting = 0;
  for (; storing.hasRoom() && waiting < 100_000; waiting++) void storing.store([frame], {});
  expect(waiting).toBeLessThan(33_000);
});

it("counts the datagrams that the kernel has dropped of its own socket", async () => {
  const clock = createTestClock();
  let drops = 0;
  const row = (port: number, inode: number, dropped: number) =>
    `  1: 0100007F:${port.toString(16).toUpperCase().padStart(4, "0")} 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 ${inode} 2 0000000000000000 ${dropped}         `;
  const proc = {
    readSockets: async () =>
      `  sl  local_address\n${row(port(), 7, 99)}\n${row(port(), 8, drops)}\n`,
    readDescriptors: async () => ["pipe:[7]", "socket:[8]", "socket:[9]"],
  };
  const syslog = await start({
    clock,
    config: { udp: { listen: "127.0.0.1:0" } },
    options: { proc },
  });
  const port = () => syslog.port("udp");
  await clock.advance(10_000);
  expect(syslog.counters()).toMatchObject({ kernel_drops: 0 });
  drops = 5;
  await expect
    .poll(async () => {
      await clock.advance(10_000);
      return syslog.counters().kernel_drops;
    })
    .toBe(5);
  expect(refusalsOf(closeAccounts(syslog.queue))).toEqual(refused(queueFull, 5));
  expect(syslog.source.warnings?.().map(({ code }) => code)).toEqual(["udp_lossy", "udp_drops"]);
});

it("receives by a unix socket, also where a killed process has left one", async () => {
  const path = join(newFolder(), "log");
  const used = createServer().listen(path);
  await once(used, "listening");
  await expect(start({ config: { unix: { path } } })).rejects.toThrow(/EADDRINUSE/);
  const left = join(newFolder(), "log");
  const killed = `require("net").createServer().listen("${left}", () => process.kill(process.pid, "SIGKILL"))`;
  spawnSync(process.execPath, ["-e", killed]);
  expect(existsSync(left)).toBe(true);
  const syslog = await start({ config: { unix: { path: left } } });
  const sender = await syslog.connect({ path: left });
  sender.write("<13>Oct 11 22:14:15 su: by glibc\0");
  await expect.poll(() => syslog.texts()).toEqual(["by glibc"]);
  expect(syslog.records()[0]?.attributes).not.toHaveProperty("client.address");
  used.close();
});

it("W5: requires certificates of senders by TLS, and takes up a new one of its own", async () => {
  const clock = createTestClock();
  const dir = newFolder();
  const ca = await createTestCa();
  const stranger = await createTestCa({ name: "Stranger" });
  const write = (name: string, text: string) => {
    writeFileSync(join(dir, name), text);
    chmodSync(join(dir, name), 0o600);
    return join(dir, name);
  };
  const files = async (by: TestCa) => {
    const { cert, key } = await createServerTls(by);
    return { certFile: write("tls.crt", cert), keyFile: write("tls.key", key) };
  };
  const tls = { ...(await files(ca)), clientCaFile: write("ca.pem", ca.pem) };
  const syslog = await start({ clock, config: { tcp: { listen: "127.0.0.1:0", tls } } });
  const send = async (options: ConnectionOptions) => {
    const sender = connectTls({ port: syslog.port("tcp"), servername: "localhost", ...options });
    await once(sender, "secureConnect");
    sender.end(lines(["by TLS"]));
    sender.resume();
    await once(sender, "close");
  };
  const issue = (by: TestCa) => createServerTls(by, clientExtensions());
  const trusted = await issue(ca);
  await send({ ca: ca.pem, ...trusted });
  await expect.poll(() => syslog.texts()).toEqual(["by TLS"]);
  for (const own of [{}, await issue(stranger)])
    await send({ ca: ca.pem, ...own }).catch(() => undefined);
  await expect.poll(() => syslog.counters().broken_connections).toBe(2);
  await files(stranger);
  await expect
    .poll(async () => {
      await clock.advance(10_000);
      return send({ ca: stranger.pem, ...trusted }).then(
        () => "accepted",
        () => "refused",
      );
    })
    .toBe("accepted");
  expect(syslog.texts().every((text) => text === "by TLS")).toBe(true);
  write("tls.key", "damaged");
  await expect
    .poll(async () => {
      await clock.advance(10_000);
      return syslog.source.condition?.()?.code;
    })
    .toBe("source_failed");
});

it("warns of a listener that is open to the network without TLS", async () => {
  const syslog = await start({
    config: { tcp: { listen: "0.0.0.0:0" }, udp: { listen: "[::]:0" } },
  });
  expect(syslog.source.warnings?.()).toMatchObject([
    { code: "open_listener", level: "warning", path: "0.0.0.0:0", count: 2 },
    { code: "udp_lossy" },
  ]);
});
