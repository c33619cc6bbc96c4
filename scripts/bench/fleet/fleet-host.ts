import { createHash } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { StatusExchange } from "#collector/forward/stream.ts";
import { createResumeTls } from "#collector/identity/resume-tls.ts";
import { signBody } from "#collector/management/signed-request.ts";
import { fullJitterMs } from "#kit/backoff.ts";
import { rfc3339, systemClock } from "#kit/clock.ts";
import { fraction, systemEntropy } from "#kit/entropy.ts";
import { createBenchRequest } from "../host/bench-csr.ts";
import { connectHost, type HostConnection, type HostTarget } from "../host/connection.ts";
import type { BenchHost } from "../host/enrolled-hosts.ts";
import { signHeartbeat, statusWith } from "../host/heartbeats.ts";
import { openStatusStream } from "../host/status-stream.ts";
import type { FleetFigures } from "./fleet-figures.ts";

/** The parts that the hosts of a fleet share. */
export interface FleetContext {
  figures: FleetFigures;
  ca: string;
  intervalMs: number;
  /** The longest wait before a host connects again. */
  backoffCapMs: number;
  /** Whether the network is cut: no host connects then. */
  isCut: boolean;
  /** Runs an attempt to connect, a bounded number at a time: real hosts have processors of their own. */
  inTurn(attempt: () => Promise<void>): Promise<void>;
}

/** That of a collector's forwarder. */
const backoffBaseMs = 500;
/** That of a collector, whose statuses need no report for so long. */
const reportIntervalMs = 600_000;

/**
 * An enrolled host with a connection and an open stream, in the rhythm of a collector. A heartbeat that is due while the host is not connected
 * is skipped and counted; after one that failed the next is sent when a stream opens, as a collector does. `Retry-After` of a refused one is
 * never longer than the interval, which the host waits anyway.
 */
export class FleetHost {
  /** When core last accepted a heartbeat, monotonic. */
  acceptedAt = Number.NEGATIVE_INFINITY;
  readonly #context: FleetContext;
  #host: BenchHost;
  #target: HostTarget;
  #resume = createResumeTls();
  #connection: HostConnection | undefined;
  #statuses: StatusExchange | undefined;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #connectTimer: NodeJS.Timeout | undefined;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #attempt = 0;
  #isFailing = false;
  #isSending = false;
  #isStopped = false;

  constructor(host: BenchHost, target: HostTarget, context: FleetContext) {
    this.#host = host;
    this.#target = target;
    this.#context = context;
  }

  get isConnected(): boolean {
    return this.#connection !== undefined;
  }

  /** Connects after `connectMs`, and sends its first heartbeat after `heartbeatMs`. */
  start(connectMs: number, heartbeatMs: number): void {
    this.#connectAfter(connectMs);
    this.#heartbeatAfter(heartbeatMs);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#connectTimer);
    clearTimeout(this.#heartbeatTimer);
    this.cut();
  }

  /** Closes the connection as a cut network does; the host then connects again with its usual backoff. */
  cut(): void {
    const open = this.#connection;
    this.#forget();
    open?.close();
  }

  /** Renews its certificate with a new key, and connects again with it. */
  async renew(): Promise<void> {
    const { ca } = this.#context;
    const { csrPem, keyPem, privateKey } = createBenchRequest(this.#host.identity);
    const now = rfc3339(systemClock.now());
    const body = { sent_at: now, csr_pem: csrPem, collector_version: "1.2.3" };
    const answer = await this.#timed("renew", async () => {
      const signed = JSON.stringify(signBody("renew", this.#host, body));
      const { status, text } = await this.#open().post("/v1/collector/renew", signed);
      if (status !== 200) throw new Error(codeOf(text));
      return JSON.parse(text) as { certificate_pem: string; fingerprint_sha256: string };
    });
    if (answer === undefined) return;
    const { certificate_pem: certificate, fingerprint_sha256: fingerprintSha256 } = answer;
    this.#host = { ...this.#host, certificate, fingerprintSha256, privateKey };
    const secureContext = createSecureContext({ ca, cert: certificate, key: keyPem });
    this.#target = { ...this.#target, secureContext };
    // A session is bound to the certificate of its handshake.
    this.#resume = createResumeTls();
    this.cut();
  }

  /** Counts how long `work` takes, or why it fails. */
  async #timed<Result>(kind: string, work: () => Promise<Result>): Promise<Result | undefined> {
    const { figures } = this.#context;
    const startedAt = performance.now();
    try {
      const result = await work();
      figures.took(kind, performance.now() - startedAt);
      return result;
    } catch (error) {
      figures.failed(kind, error instanceof Error ? error.message : "unknown");
      return undefined;
    }
  }

  #open(): HostConnection {
    if (this.#connection === undefined) throw new Error("not_connected");
    return this.#connection;
  }

  #connectAfter(ms: number): void {
    if (this.#isStopped) return;
    const attempt = () => void this.#context.inTurn(() => this.#connect());
    this.#connectTimer = setTimeout(attempt, ms);
  }

  #connectLater(): void {
    const backoff = { baseMs: backoffBaseMs, capMs: this.#context.backoffCapMs };
    this.#connectAfter(
      fullJitterMs({ attempt: this.#attempt++, ...backoff, entropy: systemEntropy }),
    );
  }

  async #connect(): Promise<void> {
    if (this.#isStopped) return;
    const { figures, isCut } = this.#context;
    const startedAt = performance.now();
    try {
      if (isCut) throw new Error("unreachable");
      const opened = await connectHost(this.#target, this.#resume, () => this.#closed());
      if (this.#isStopped) return opened.close();
      this.#connection = opened;
      figures.took(opened.isResumed ? "resumed" : "connected", performance.now() - startedAt);
      this.#openStream(opened, startedAt);
    } catch (error) {
      figures.failed("connect", error instanceof Error ? error.message : "unknown");
      this.#connectLater();
    }
  }

  #openStream(opened: HostConnection, startedAt: number): void {
    const { figures } = this.#context;
    const { identity } = this.#host;
    const exchange = openStatusStream(opened, {
      identity,
      queueId: new Uint8Array(createHash("sha256").update(identity).digest().subarray(0, 16)),
      onOpened: () => {
        this.#attempt = 0;
        figures.took("opened", performance.now() - startedAt);
        this.#statuses = exchange;
        if (this.#isFailing) this.#heartbeatAfter(0);
      },
      // As a collector's forwarder, which makes a new connection for each stream.
      onEnd: () => {
        figures.failed("stream", "ended");
        if (this.#connection === opened) this.cut();
      },
    });
  }

  #closed(): void {
    // Core closed it: this host forgets a connection before it closes it.
    if (this.#connection !== undefined) this.#context.figures.failed("connection", "closed");
    this.#forget();
    this.#connectLater();
  }

  #forget(): void {
    this.#connection = undefined;
    this.#statuses?.end(new Error("closed"));
    this.#statuses = undefined;
  }

  #heartbeatAfter(ms: number): void {
    const { figures, intervalMs } = this.#context;
    const dueAt = performance.now() + ms;
    clearTimeout(this.#heartbeatTimer);
    this.#heartbeatTimer = setTimeout(() => {
      figures.late(performance.now() - dueAt);
      void this.#heartbeat();
      this.#heartbeatAfter(intervalMs * (0.9 + 0.2 * fraction(systemEntropy)));
    }, ms);
  }

  async #heartbeat(): Promise<void> {
    // A collector waits for its answer before it counts the interval.
    if (this.#isSending) return;
    this.#isSending = true;
    const isAccepted = await this.#timed("heartbeat", () => this.#sendStatus());
    this.#isSending = false;
    this.#isFailing = isAccepted === undefined;
    if (isAccepted) this.acceptedAt = performance.now();
  }

  async #sendStatus(): Promise<true> {
    const statuses = this.#statuses;
    if (statuses === undefined) throw new Error("not_connected");
    const needsReport = performance.now() - this.#reportedAt >= reportIntervalMs;
    let answer = await statuses.send(statusWith(needsReport ? signHeartbeat(this.#host) : ""));
    if (answer.reportNeeded) answer = await statuses.send(statusWith(signHeartbeat(this.#host)));
    if (answer.refused !== "") throw new Error(answer.refused);
    if (needsReport) this.#reportedAt = performance.now();
    return true;
  }
}

const codeOf = (text: string): string => {
  try {
    return String((JSON.parse(text) as { code?: unknown }).code);
  } catch {
    return "unreadable";
  }
};
