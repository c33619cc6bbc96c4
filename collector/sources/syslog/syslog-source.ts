/*
 * A `syslog` source. Invariants:
 * - Of a connection no more is read before what was read is on disk, or counted. TCP has no answer to a message: what is on its way when either
 *   end is killed is lost, and only the sender could know.
 * - A datagram is stored, or counted: by this source, or by the kernel.
 * - All senders together take bounded memory, whatever they send.
 */
import type { Socket as DatagramSocket } from "node:dgram";
import { createServer, type Server } from "node:net";
import { createServer as createTlsServer, type Server as TlsServer } from "node:tls";
import { isDeepStrictEqual } from "node:util";
import { readPrivateText, readTrustedText } from "#collector/files/private-files.ts";
import { createReportedFault } from "#collector/queue/reported-fault.ts";
import type { SourceConfig } from "#proto/collector-config/parse.ts";
import { lineBytesMax } from "../file/lines.ts";
import { warningOf } from "../file/warnings.ts";
import { createListeners, isOnLoopback, removeStaleSocket } from "../listeners.ts";
import type { Source, SourceDependencies, SourceWarning } from "../source.ts";
import { type ConnectionLimits, createConnections } from "./connections.ts";
import { createDatagrams } from "./datagrams.ts";
import { type ProcFiles, systemProc } from "./kernel-drops.ts";
import { createStoring } from "./storing.ts";

/** The config of a `syslog` source (docs/syslog.md). */
export type SyslogSourceConfig = Extract<SourceConfig, { type: "syslog" }>;

/** A `syslog` source, and the addresses on which it listens, once started. */
export interface SyslogSource extends Source {
  readonly addresses: Readonly<Record<string, string>>;
}

const defaultLimits: ConnectionLimits = {
  connectionsMax: 1_000,
  messageBytesMax: lineBytesMax,
  heldBytesMax: 32 * 1024 * 1024,
  idleMs: 3_600_000,
  incompleteMs: 60_000,
};

/** How often idle connections, drops of the kernel and files of TLS are looked at. */
const lookMs = 10_000;
const handshakeMs = 10_000;
/** Nothing of a connection is read ahead of what is being stored. */
const plain = { highWaterMark: 0 };

/** Creates a source that receives syslog messages by TCP, TLS, UDP and a unix socket. */
export const createSyslogSource = (
  config: SyslogSourceConfig,
  dependencies: SourceDependencies,
  { limits = {}, proc = systemProc }: { limits?: Partial<ConnectionLimits>; proc?: ProcFiles } = {},
): SyslogSource => {
  const name = "syslog";
  const { tcp, udp, unix, format } = config;
  const { clock } = dependencies;
  const stopping = new AbortController();
  const ending = new AbortController();
  const storing = createStoring(name, format, dependencies, ending.signal);
  const connections = createConnections(
    name,
    { ...defaultLimits, ...limits },
    dependencies,
    storing,
  );
  const datagrams = createDatagrams(name, dependencies, storing, proc);
  const listeners = createListeners<Server | DatagramSocket>(name, dependencies, stopping.signal);
  const fault = createReportedFault("source_failed", clock, `${name}: `);
  let secure: { server: TlsServer; options: SecureOptions } | undefined;
  let looking: Promise<void> = Promise.resolve();

  const createTcp = async (): Promise<Server> => {
    const options = tcp?.tls && (await readSecureOptions(tcp.tls));
    if (options === undefined) return connections.read(createServer(plain), "connection", "tcp");
    const server = createTlsServer({ ...options, handshakeTimeout: handshakeMs });
    secure = { server, options };
    return connections.read(server, "secureConnection", "tcp");
  };
  const createUnix = async (path: string): Promise<Server> => {
    await removeStaleSocket(path);
    return connections.read(createServer(plain), "connection", "unix");
  };
  /** Takes up files of TLS that have changed; those that cannot be used leave the ones before in effect. */
  const renewTls = async () => {
    if (tcp?.tls === undefined || secure === undefined) return;
    try {
      const options = await readSecureOptions(tcp.tls);
      if (!isDeepStrictEqual(options, secure.options)) secure.server.setSecureContext(options);
      secure.options = options;
      fault.succeeded();
    } catch (error) {
      fault.failed(error);
    }
  };
  const look = async () => {
    while (!stopping.signal.aborted) {
      await clock.sleep(lookMs, stopping.signal).catch(() => undefined);
      connections.endIdle();
      await datagrams.countDrops();
      await renewTls();
    }
  };
  const stop = async () => {
    stopping.abort(new Error("the source is stopping"));
    await looking;
    const closed = (await listeners.take()).map(
      (server) => new Promise<void>((resolve) => void server.close(() => resolve())),
    );
    await connections.drain(() => ending.abort(new Error("the source is stopping")));
    ending.abort(new Error("the source has stopped"));
    await Promise.all([...closed, datagrams.drained()]);
  };

  return {
    name,
    addresses: listeners.addresses,
    start: async ({ retries } = { retries: false }) => {
      const open = async (
        transport: string,
        address: string | undefined,
        create: () => DatagramSocket | Promise<Server>,
      ) => {
        if (address !== undefined) await listeners.open({ transport, address, create }, retries);
      };
      try {
        await open("tcp", tcp?.listen, createTcp);
        await open("udp", udp?.listen, () => datagrams.create(udp?.listen ?? ""));
        await open("unix", unix?.path, () => createUnix(unix?.path ?? ""));
      } catch (error) {
        await stop();
        throw error;
      }
      looking = look();
    },
    stop,
    condition: () => storing.condition() ?? fault.condition() ?? listeners.condition(),
    warnings: () => {
      const { kernel_drops: drops } = datagrams.counts();
      const { refused_connections: refused } = connections.counts();
      return [
        ...syslogWarnings(config),
        ...warningOf(
          "udp_drops",
          udp && drops > 0 ? [udp.listen] : [],
          `the kernel dropped ${drops} datagrams; raise net.core.rmem_max, or use TCP`,
        ),
        ...warningOf(
          "connections_refused",
          refused > 0 ? [tcp?.listen ?? unix?.path ?? ""] : [],
          `refused ${refused} connections, as others are open; let senders share them`,
        ),
      ];
    },
    counters: () => ({ ...storing.counts(), ...connections.counts(), ...datagrams.counts() }),
  };
};

type SecureOptions = Awaited<ReturnType<typeof readSecureOptions>>;

/** Reads the files of TLS. Senders need a certificate where there are authorities for it. */
const readSecureOptions = async ({
  certFile,
  keyFile,
  clientCaFile,
}: NonNullable<NonNullable<SyslogSourceConfig["tcp"]>["tls"]>) => ({
  cert: await readTrustedText(certFile),
  key: await readPrivateText(keyFile),
  minVersion: "TLSv1.2" as const,
  ...(clientCaFile !== undefined && {
    ca: await readTrustedText(clientCaFile),
    requestCert: true,
    rejectUnauthorized: true,
  }),
});

/** Returns what a config warns of by itself. */
export const syslogWarnings = ({ tcp, udp }: SyslogSourceConfig): SourceWarning[] => {
  const plain = [tcp?.tls === undefined ? tcp?.listen : undefined, udp?.listen];
  const open = plain
    .filter((address) => address !== undefined)
    .filter((address) => !isOnLoopback(address));
  return [
    ...warningOf(
      "open_listener",
      open,
      "anyone on this network can read and forge messages; use `tls` with `client_ca_file`, or a firewall",
    ),
    ...warningOf(
      "udp_lossy",
      udp ? [udp.listen] : [],
      "UDP loses messages without a trace wherever it is busy; use TCP where none may be lost",
      "note",
    ),
  ];
};
