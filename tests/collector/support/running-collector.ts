import { hash } from "node:crypto";
import { rename, writeFile } from "node:fs/promises";
import { isUsable, loadConfig } from "#collector/config/load-config.ts";
import { superviseCollector } from "#collector/runtime/supervisor.ts";
import type { Source, SourceDependencies } from "#collector/sources/source.ts";
import { type Clock, systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { mapValues } from "#kit/map-values.ts";
import { type Tracer, untraced } from "#kit/tracing/tracer.ts";
import type { SourceConfig } from "#proto/collector-config/parse.ts";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import type { CaBundle } from "#proto/management/enroll.ts";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { startIngestPeer } from "#tests/fakes/ingest-peer.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import {
  issueFor,
  type ManagementCall,
  type ManagementReply,
  startManagementServer,
} from "#tests/fakes/management-server.ts";
import { createEnrolledHost } from "./enrolled-host.ts";

/** A clock that runs, and that a test with real sockets and files can move ahead by minutes. */
interface SkippingClock extends Clock {
  /** Advances wall and monotonic time by `ms` at once, and wakes the sleepers that are due. */
  skip(ms: number): void;
  /** Reports whether anything sleeps that asked for between `msMin` and `msMax`. */
  sleeps(msMin: number, msMax: number): boolean;
}

/** Creates a clock that runs `speed` times as fast as the machine's. */
const createSkippingClock = (speed = 1): SkippingClock => {
  const wallStart = systemClock.now();
  const start = systemClock.monotonic();
  let skipped = 0;
  const sleepers = new Set<{ ms: number; wake(): void }>();
  const passed = () => (systemClock.monotonic() - start) * speed + skipped;
  const monotonic = () => start + passed();
  return {
    now: () => Math.floor(wallStart + passed()),
    monotonic,
    sleep: async (ms, signal) => {
      const end = monotonic() + ms;
      while (monotonic() < end) {
        signal?.throwIfAborted();
        const pause = new AbortController();
        const wake = () => pause.abort();
        const sleeper = { ms, wake };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", wake, { once: true });
        // A timer may be early by a fraction of a millisecond.
        await systemClock
          .sleep(Math.max(0, Math.ceil((end - monotonic()) / speed)), pause.signal)
          .catch(() => undefined);
        signal?.removeEventListener("abort", wake);
        sleepers.delete(sleeper);
      }
      signal?.throwIfAborted();
    },
    skip: (ms) => {
      skipped += ms;
      for (const { wake } of [...sleepers]) wake();
    },
    sleeps: (msMin, msMax) => [...sleepers].some(({ ms }) => ms >= msMin && ms <= msMax),
  };
};

/** A collector with real files and sockets in the test's process, between a fake ingest listener and a fake core. */
export type RunningCollector = Awaited<ReturnType<typeof createRunningCollector>>;

/** Creates a heartbeat's answer; `over` replaces members. */
export const heartbeatAnswer = (over: object = {}) => ({
  status: 200,
  body: {
    server_time: "2026-06-01T12:00:00.000Z",
    next_heartbeat_seconds: 1,
    desired_config: null,
    renew_now: false,
    ...over,
  },
});

const idle = { start: async () => undefined, stop: async () => undefined };

/** Creates a collector that is not started. `sources` is the YAML of its sources, `management` more of that section. */
export const createRunningCollector = async (
  options: {
    sources?: string;
    management?: string;
    managementAtIngest?: boolean;
    tracer?: Tracer;
  } = {},
) => {
  const {
    sources = "[{type: file, include: [/nowhere/*]}]",
    management = "",
    managementAtIngest = false,
    tracer = untraced,
  } = options;
  const ca = await createTestCa();
  const peer = await startIngestPeer({ ca });
  const server = await startManagementServer();
  const coreUrl = managementAtIngest ? `https://${peer.endpoint}` : server.url;
  const managed = `management: {core_url: "${coreUrl}", ca_file: core-ca.pem${management}}\n`;
  const host = await createEnrolledHost({
    ca,
    caPem: ca.pem + server.caPem,
    identity: peer.hostId,
    endpoint: peer.endpoint,
    more: `sources: ${sources}\n${managed}`,
  });
  const bundles: Record<CaChannel, CaBundle | null> = { ingest: null, management: null };
  const numbers = () => mapValues(bundles, (bundle) => bundle?.number ?? 0);
  let heartbeat: (call: ManagementCall) => ManagementReply = () =>
    heartbeatAnswer({ ca_bundles: numbers() });
  let renew: (call: ManagementCall) => ManagementReply | Promise<ManagementReply> = (call) =>
    issueFor(ca, call);
  let desired: (call: ManagementCall) => ManagementReply | Promise<ManagementReply> = () => ({
    status: 200,
    body: { assignment: null },
  });
  let diag: (call: ManagementCall) => ManagementReply | Promise<ManagementReply> = () => ({
    status: 200,
    body: { received_at: "2026-06-01T12:00:00.000Z" },
  });
  const bundleFor = ({ channel }: ManagementCall["body"], own: CaChannel) => ({
    bundle: channel === own || managementAtIngest ? bundles[channel as CaChannel] : null,
  });
  peer.behaviour.answerPost = (path, body) => {
    if (path.endsWith("/ca-bundle")) return bundleFor(body, "ingest");
    return heartbeatAnswer({ ca_bundles: numbers() }).body;
  };
  server.reply((call) => {
    if (call.path.endsWith("/ca-bundle"))
      return { status: 200, body: bundleFor(call.body, "management") };
    if (call.path.endsWith("/heartbeat")) return heartbeat(call);
    if (call.path.endsWith("/renew")) return renew(call);
    return call.path.endsWith("/diag") ? diag(call) : desired(call);
  });
  const testLog = createTestLog();
  const log = { ...testLog, reload: () => undefined };
  const stopping = new AbortController();
  const clock = createSkippingClock(5);
  const env = { clock, entropy: systemEntropy, effectiveUid: 1000, variables: {} };
  let done: Promise<unknown> = Promise.resolve();
  return {
    host,
    peer,
    server,
    log: testLog,
    /** The collector's clock, five times as fast as the system clock. */
    clock,
    /** Publishes a CA bundle: answers to heartbeats have its number, the next one unless given, and the server of its channel has it. */
    publish: (channel: CaChannel, pem: string, over: Partial<CaBundle> = {}) => {
      bundles[channel] = {
        number: (bundles[channel]?.number ?? 0) + 1,
        sha256: hash("sha256", pem),
        pem,
        published_at: "2026-06-01T12:00:00.000Z",
        ...over,
      };
    },
    /** Sets the answer to heartbeats; by default an empty one that requests the next after a second. */
    onHeartbeat: (reply: (call: ManagementCall) => ManagementReply) => {
      heartbeat = reply;
    },
    /** Sets the answer to renewals; by default a certificate for the request. */
    onRenew: (reply: (call: ManagementCall) => ManagementReply | Promise<ManagementReply>) => {
      renew = reply;
    },
    /** Sets the answer to requests for the desired config; by default none is assigned. */
    onDesired: (reply: (call: ManagementCall) => ManagementReply | Promise<ManagementReply>) => {
      desired = reply;
    },
    /** Sets the answer to diagnostics; by default they are stored. */
    onDiag: (reply: (call: ManagementCall) => ManagementReply | Promise<ManagementReply>) => {
      diag = reply;
    },
    heartbeats: () => server.calls.filter(({ path }) => path.endsWith("/heartbeat")),
    /** Replaces the config: the lines that every config of the host has, and `more`. */
    configure: async (more: string) => {
      // In one step: a reader between truncating and writing a file would find an invalid config.
      await writeFile(
        `${host.config}.new`,
        `${host.configText.split("sources:")[0]}${managed}${more}`,
      );
      await rename(`${host.config}.new`, host.config);
    },
    /** Starts it, with the sources that `createSource` creates. `done` is the end of the run. */
    start: async (
      createSource: (config: SourceConfig, given: SourceDependencies) => Source = () => ({
        name: "idle",
        ...idle,
      }),
    ) => {
      const loaded = await loadConfig(host.config, env);
      if (!isUsable(loaded)) throw new Error(JSON.stringify(loaded.errors));
      const facts = {
        bootId: "ab".repeat(16),
        version: "0.1.0",
        commit: "unknown",
        hostname: "host.test",
        platform: "linux/amd64",
        startedAt: clock.now(),
      };
      const run = superviseCollector(
        { loaded, env, facts, log, tracer, createSource },
        stopping.signal,
      );
      done = run.catch(() => undefined);
      return { done: run };
    },
    /** Stops it as SIGTERM does. */
    end: () => stopping.abort(),
    /** Ends the run, if there is one, and closes everything around it. */
    stop: async () => {
      stopping.abort();
      await done;
      await Promise.all([peer.close(), server.close()]);
    },
  };
};
