import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { connectDatabase } from "#functions/store/database/database.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { memoryOf } from "#scripts/bench/support/processes.ts";
import { workloadEnvironment } from "#scripts/lab/core-environment.ts";
import { prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { people, seedPeople } from "#scripts/lab/people.ts";
import { webEnvironment } from "#scripts/lab/web-environment.ts";
import { openEmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { frame, newQueue } from "#tests/support/frames.ts";
import { connectForeign, submit } from "#tests/support/grpc-client.ts";
import { logged, programFile, startProgram } from "#tests/support/program.ts";
import { parseWebConfig } from "#ui/bff/config.ts";
import { createSessions } from "#ui/bff/session.ts";
import type { AttackedProgram } from "./http-attacks.ts";

const probe = new URL("./event-loop-probe.ts", import.meta.url);

/** What well-behaved clients saw. */
export interface Behaved {
  /** The milliseconds of a person's requests through web to core. */
  requests: number[];
  /** The milliseconds of a collector's frames until their acks. */
  acks: number[];
  /** Why some were not served. */
  faults: string[];
}

/** Core and web as processes, with well-behaved clients. */
export interface Deployment {
  ports: Readonly<Record<AttackedProgram, number>>;
  /** Sends a request and a frame every 10 ms. */
  behave(ms: number): Promise<Behaved>;
  isRunning(): boolean;
  peakMbOf(program: AttackedProgram): number;
  /** Forgets the delays of the event loops so far. */
  resetDelays(): void;
  delayOf(program: AttackedProgram): { p99_ms: number; max_ms: number };
  close(): Promise<void>;
}

/** Prepares deployments on one database; `close` ends what they share. */
export const prepareDeployments = async () => {
  const cleanup = new AsyncDisposableStack();
  const { path: dir } = cleanup.use(await openTemporaryFolder("floods"));
  const database = await openEmbeddedDatabase();
  cleanup.defer(() => database.close());
  const delays = join(dir, "delay");
  const probed = { NODE_OPTIONS: `--import=${fileURLToPath(probe)}`, SVC_FLOOD_PROBE: delays };
  const authTokenSecret = systemEntropy.bytes(32).toHex();
  const prepared = await prepareIngestCore(database.url, {
    env: { ...probed, ...workloadEnvironment, SVC_AUTH_TOKEN_SECRET: authTokenSecret },
    program: programFile("functions/main.ts"),
  });
  cleanup.defer(() => prepared.remove());
  const host = "https://fleet.flood/d/well-behaved";
  const pair = await prepared.client(host);
  let isSeeded = false;
  const seed = async () => {
    const seeding = connectDatabase({ url: database.url, connectionsMax: 1, deadlineMs: 0 });
    await seedPeople(seeding.db, Date.now());
    await seeding.close();
    isSeeded = true;
  };

  const start = async (): Promise<Deployment> => {
    const running = new AsyncDisposableStack();
    const core = await prepared.start();
    core.process.stdout?.resume();
    running.defer(async () => {
      const exited = once(core.process, "exit");
      if (core.process.exitCode === null && core.process.kill("SIGKILL")) await exited;
    });
    if (!isSeeded) await seed();
    const env = {
      ...probed,
      ...webEnvironment({
        SESSION_TTL: "8h",
        SVC_API_URL: `http://127.0.0.1:${core.port}/v1`,
        SVC_AUTH_TOKEN_SECRET: authTokenSecret,
        SVC_DATABASE_URL: database.url,
      }),
    };
    const web = startProgram("ui/bff/main.ts", [], env);
    running.defer(async () => {
      web.child.kill("SIGKILL");
      await web.exited;
    });
    const ports = { core: core.port, web: Number((await logged(web, "ready")).port) };
    const pids = { core: core.process.pid ?? 0, web: web.child.pid ?? 0 };
    const { config } = parseWebConfig(env, () => "");
    const sessions = createSessions({ config, clock: systemClock, entropy: systemEntropy });
    const [cookie = ""] = (await sessions.issue(people.reader)).cookie.split(";");
    const client = connectForeign(
      { port: core.ingestPort, caPem: prepared.caPem },
      { ...pair, der: new Uint8Array() },
    );
    running.defer(() => client.close());
    const queue = newQueue();
    let sequence = 0;
    const request = async () => {
      const address = `http://127.0.0.1:${ports.web}/api/core/whoami`;
      const response = await fetch(address, { headers: { Cookie: cookie } });
      const text = await response.text();
      if (response.status !== 200) throw new Error(`${response.status} ${text}`);
    };
    const forward = async () => {
      const { error } = await submit(client, frame(queue, ++sequence, sequence, host));
      if (error !== undefined) throw new Error(JSON.stringify(error));
    };
    return {
      ports,
      isRunning: () => core.process.exitCode === null && web.child.exitCode === null,
      peakMbOf: (program) => memoryOf(pids[program]).peakMb,
      resetDelays() {
        for (const pid of Object.values(pids)) process.kill(pid, "SIGUSR2");
      },
      delayOf: (program) => JSON.parse(readFileSync(`${delays}.${pids[program]}`, "utf8")),
      async behave(ms) {
        const until = Date.now() + ms;
        const seen: Behaved = { requests: [], acks: [], faults: [] };
        const repeat = async (durations: number[], pauseMs: number, send: () => Promise<void>) => {
          while (Date.now() < until) {
            const startedAt = performance.now();
            await send().catch((error) => seen.faults.push(String(error)));
            durations.push(performance.now() - startedAt);
            await sleep(pauseMs);
          }
        };
        // On a quiet machine a shorter pause exceeds the limit of a person.
        await Promise.all([repeat(seen.requests, 50, request), repeat(seen.acks, 10, forward)]);
        return seen;
      },
      close: () => running.disposeAsync(),
    };
  };
  return { start, close: () => cleanup.disposeAsync() };
};
