import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Queue, QueueOptions } from "#collector/queue/queue.ts";
import {
  createSyslogSource,
  type SyslogSourceConfig,
} from "#collector/sources/syslog/syslog-source.ts";
import type { Clock } from "#kit/clock.ts";
import { systemClock } from "#kit/clock.ts";
import { splitHostPort } from "#proto/collector-config/sources.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openTestQueue, readAll, textsOf } from "#tests/support/queue.ts";

const anyPort = "127.0.0.1:0";

/** Starts a `syslog` source with a queue: by TCP on a free loopback port, unless the config says otherwise. */
export const startTestSyslog = async ({
  config = { tcp: { listen: anyPort } },
  options = {},
  queueOptions = {},
  clock = systemClock,
}: {
  config?: Partial<SyslogSourceConfig>;
  options?: Parameters<typeof createSyslogSource>[2];
  queueOptions?: Partial<QueueOptions>;
  clock?: Clock;
} = {}) => {
  const queue = openTestQueue(newFolder(), queueOptions);
  const log = createTestLog();
  let append: Queue["append"] = queue.append;
  const source = createSyslogSource(
    { type: "syslog", format: "auto", ...config },
    {
      append: (...call) => append(...call),
      refused: queue.accounts.refused,
      clock,
      log,
    },
    options,
  );
  await source.start();
  const senders: Socket[] = [];
  return {
    source,
    queue,
    log,
    /** Replaces the queue's `append`. */
    appendBy: (other: Queue["append"]) => {
      append = other;
    },
    records: () => readAll(queue),
    texts: () => textsOf(readAll(queue)),
    counters: () => source.counters?.() ?? {},
    /** Returns the port of a transport. */
    port: (transport: "tcp" | "udp") => splitHostPort(source.addresses[transport] ?? "")?.port ?? 0,
    /** Connects a sender by TCP, or to the path of a unix socket. */
    connect: async (to: { path?: string; allowHalfOpen?: boolean } = {}): Promise<Socket> => {
      const { port } = splitHostPort(source.addresses.tcp ?? "") ?? { port: 0 };
      const sender = connect({ port, host: "127.0.0.1", ...to });
      sender.on("error", () => undefined);
      senders.push(sender);
      await once(sender, "connect");
      return sender;
    },
    close: async () => {
      for (const sender of senders) sender.destroy();
      await source.stop();
      await queue.close();
    },
  };
};
