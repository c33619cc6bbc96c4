import { createHash, createPrivateKey, type KeyObject } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { Status } from "../../../collector/forward/messages.ts";
import type { StatusExchange } from "../../../collector/forward/status-exchange.ts";
import { createResumeTls } from "../../../collector/identity/resume-tls.ts";
import { signBody } from "../../../collector/management/signed-request.ts";
import { fullJitterMs } from "../../../kit/backoff.ts";
import { type Clock, rfc3339, systemClock } from "../../../kit/clock.ts";
import { type Entropy, fraction } from "../../../kit/entropy.ts";
import { heartbeatBody } from "../../lab/heartbeat-body.ts";
import { createBenchRequest } from "../host/bench-csr.ts";
import { connectHost, type HostConnection } from "../host/connection.ts";
import { openStatusStream } from "../host/status-stream.ts";
import type { FleetFigures } from "./figures.ts";

/** A host's credentials in PEM, with the SHA-256 of the certificate. */
export interface PemCredentials {
  cert: string;
  key: string;
  fingerprintSha256: string;
  identityId: string;
}

/** Returns a heartbeat of a healthy host now, signed. */
export const signedHeartbeat = (
  identity: string,
  { key, fingerprintSha256 }: Pick<PemCredentials, "key" | "fingerprintSha256">,
  privateKey: KeyObject = createPrivateKey(key),
): string => {
  const body = heartbeatBody(systemClock.now());
  const sentAt = String(body.sent_at);
  return JSON.stringify(
    signBody(
      "heartbeat",
      { identity, fingerprintSha256, privateKey },
      { ...body, sent_at: sentAt },
    ),
  );
};

/** The state and settings that the hosts of a process share. */
export interface FleetContext {
  clock: Pick<Clock, "now" | "monotonic">;
  entropy: Entropy;
  figures: FleetFigures;
  ca: string;
  intervalMs: number;
  /** The longest wait before a host connects again. */
  backoffCapMs: number;
  /** Whether each host holds a Forward stream open, as a collector does; its heartbeats are statuses then, or else signed requests. */
  forwards: boolean;
  /** Returns the port of the host's core; undefined while the network is cut. */
  portOf(index: number): number | undefined;
  localAddressOf(index: number): string;
  /** Runs an attempt to connect, a bounded number at a time: real hosts have processors of their own. */
  inTurn(attempt: () => Promise<void>): Promise<void>;
}

/** An enrolled host with its own key, certificate and connection, in the rhythm of a collector. */
export interface FleetHost {
  index: number;
  /** Sends a heartbeat now. */
  heartbeat(): Promise<void>;
  /** Begins: it connects after `connectMs`, and sends its first heartbeat after `heartbeatMs`. */
  start(connectMs: number, heartbeatMs: number): void;
  /** Closes the connection as a cut network does; the host then connects again with its usual backoff. */
  cut(): void;
  /** Renews its certificate with a new key, and connects again with it. */
  renew(): Promise<void>;
  isConnected(): boolean;
  /** When core last accepted a heartbeat, monotonic; negative infinity before. */
  acceptedAt(): number;
  stop(): void;
}

/** That of a collector's forwarder. */
const backoffBaseMs = 500;
/** That of a collector, whose statuses need no report for so long. */
const reportIntervalMs = 600_000;

/** The status of an idle host, whose report is always the same. */
const statusWith = (report: Uint8Array): Status => ({
  digest: Buffer.alloc(32, 1),
  queue: {
    records: 0,
    bytes: 0,
    oldestRecordAgeSeconds: null,
    droppedRecordsTotal: 0,
    deadLetters: 0,
  },
  lastAckAgeSeconds: null,
  usage: { rss_bytes: 8e7, cpu_ms: 5 },
  report,
});

/**
 * Creates a host. A heartbeat that is due while the host is not connected is skipped and counted; after one that failed the next is sent when
 * a stream opens, as a collector does. `Retry-After` of a refused one is never longer than the interval, which the host waits anyway.
 */
export const createFleetHost = (
  {
    index,
    identity,
    credentials: issued,
  }: { index: number; identity: string; credentials: PemCredentials },
  context: FleetContext,
): FleetHost => {
  const { clock, entropy, figures, intervalMs, backoffCapMs, ca } = context;
  let credentials = issued;
  const readContext = () =>
    createSecureContext({ ca, cert: credentials.cert, key: credentials.key });
  let secureContext: ReturnType<typeof readContext> | undefined;
  let privateKey: KeyObject = createPrivateKey(issued.key);
  let resume = createResumeTls();
  let connection: HostConnection | undefined;
  let statuses: StatusExchange | undefined;
  let reportedAt = Number.NEGATIVE_INFINITY;
  let connectTimer: NodeJS.Timeout | undefined;
  let heartbeatTimer: NodeJS.Timeout | undefined;
  let attempt = 0;
  let acceptedAt = Number.NEGATIVE_INFINITY;
  let isFailing = false;
  let isSending = false;
  let isStopped = false;

  const endStatuses = (): void => {
    statuses?.end(new Error("closed"));
    statuses = undefined;
  };
  const connectLater = (): void => {
    if (isStopped) return;
    connectTimer = setTimeout(
      connectNow,
      fullJitterMs({ attempt: attempt++, baseMs: backoffBaseMs, capMs: backoffCapMs, entropy }),
    );
  };
  const connectNow = (): void => void context.inTurn(attemptToConnect);
  const attemptToConnect = async (): Promise<void> => {
    if (isStopped) return;
    const port = context.portOf(index);
    if (port === undefined) {
      figures.failed("connect", "unreachable");
      return connectLater();
    }
    secureContext ??= readContext();
    const startedAt = clock.monotonic();
    const closed = (): void => {
      // Core closed it: this host forgets a connection before it closes it.
      if (connection !== undefined) figures.failed("connection", "closed");
      connection = undefined;
      endStatuses();
      connectLater();
    };
    await connectHost(
      { port, secureContext, localAddress: context.localAddressOf(index) },
      resume,
      closed,
    ).then(
      (opened) => {
        if (isStopped) return opened.close();
        connection = opened;
        if (!context.forwards) attempt = 0;
        figures.took(opened.isResumed ? "resumed" : "connected", clock.monotonic() - startedAt);
        if (!context.forwards) return;
        const exchange = openStatusStream(opened, {
          identity,
          queueId: queueIdOf(identity),
          onOpened: (takesStatus) => {
            attempt = 0;
            figures.took("opened", clock.monotonic() - startedAt);
            if (takesStatus) statuses = exchange;
            if (isFailing) heartbeatLater(0);
          },
          // As a collector's forwarder, which makes a new connection for each stream.
          onEnd: () => {
            figures.failed("stream", "ended");
            if (connection === opened) forget();
          },
        });
      },
      (error: Error) => {
        figures.failed("connect", error.message);
        connectLater();
      },
    );
  };

  const sign = () => signedHeartbeat(identity, credentials, privateKey);
  /** Returns why core refuses it; empty if it does not. */
  const post = async (open: HostConnection): Promise<string> => {
    const { status, text } = await open.post("/v1/collector/heartbeat", sign());
    return status === 200 ? "" : codeOf(text);
  };
  const sendStatus = async (exchange: StatusExchange): Promise<string> => {
    if (clock.monotonic() - reportedAt < reportIntervalMs) {
      const { reportNeeded, refused } = await exchange.send(statusWith(new Uint8Array()));
      if (!reportNeeded) return refused;
    }
    const { refused } = await exchange.send(statusWith(Buffer.from(sign())));
    if (refused === "") reportedAt = clock.monotonic();
    return refused;
  };
  /** Sends a heartbeat; returns why it failed, or an empty text. */
  const trySend = async (): Promise<string> => {
    const open = connection;
    if (open === undefined || (context.forwards && statuses === undefined)) return "not_connected";
    return (statuses ? sendStatus(statuses) : post(open)).catch((error: Error) => error.message);
  };
  const heartbeat = async (): Promise<void> => {
    // A collector waits for its answer before it counts the interval.
    if (isSending) return;
    isSending = true;
    const startedAt = clock.monotonic();
    const failure = await trySend();
    isSending = false;
    isFailing = failure !== "";
    if (isFailing) return figures.failed("heartbeat", failure);
    acceptedAt = clock.monotonic();
    figures.took("heartbeat", acceptedAt - startedAt);
  };
  const forget = (): void => {
    const open = connection;
    connection = undefined;
    endStatuses();
    open?.close();
  };
  const heartbeatLater = (ms: number): void => {
    const dueAt = clock.monotonic() + ms;
    clearTimeout(heartbeatTimer);
    heartbeatTimer = setTimeout(() => {
      if (isStopped) return;
      figures.late(clock.monotonic() - dueAt);
      void heartbeat();
      heartbeatLater(intervalMs * (0.9 + 0.2 * fraction(entropy)));
    }, ms);
  };

  return {
    index,
    heartbeat,
    start(connectMs, heartbeatMs) {
      connectTimer = setTimeout(connectNow, connectMs);
      heartbeatLater(heartbeatMs);
    },
    cut: forget,
    async renew() {
      const open = connection;
      if (open === undefined) return figures.failed("renew", "not_connected");
      const { csrPem, keyPem } = createBenchRequest(identity);
      const body = { sent_at: rfc3339(clock.now()), csr_pem: csrPem, collector_version: "1.2.3" };
      const startedAt = clock.monotonic();
      try {
        const { fingerprintSha256 } = credentials;
        const signed = signBody("renew", { identity, fingerprintSha256, privateKey }, body);
        const response = await open.post("/v1/collector/renew", JSON.stringify(signed));
        if (response.status !== 200) return figures.failed("renew", codeOf(response.text));
        figures.took("renew", clock.monotonic() - startedAt);
        const answer: { certificate_pem: string; fingerprint_sha256: string } = JSON.parse(
          response.text,
        );
        credentials = {
          ...credentials,
          cert: answer.certificate_pem,
          key: keyPem,
          fingerprintSha256: answer.fingerprint_sha256,
        };
        privateKey = createPrivateKey(keyPem);
        secureContext = undefined;
        // A session is bound to the certificate of its handshake.
        resume = createResumeTls();
        forget();
      } catch (error) {
        figures.failed("renew", error instanceof Error ? error.message : "unknown");
      }
    },
    isConnected: () => connection !== undefined,
    acceptedAt: () => acceptedAt,
    stop() {
      isStopped = true;
      clearTimeout(connectTimer);
      clearTimeout(heartbeatTimer);
      forget();
    },
  };
};

const queueIdOf = (identity: string): Uint8Array =>
  new Uint8Array(createHash("sha256").update(identity).digest().subarray(0, 16));

const codeOf = (text: string): string => {
  try {
    return String((JSON.parse(text) as { code?: unknown }).code);
  } catch {
    return "unreadable";
  }
};
