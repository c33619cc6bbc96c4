/**
 * A backend of OTLP that keeps what it accepts, and the client of an exporter's process, on the simulated network. What a request becomes is
 * read by the product (`readHttpOutcome`, `lostResponse`); models.test.ts holds the client to the real one.
 */

import type { OtlpClient } from "#functions/export/otlp-client.ts";
import { lostResponse } from "#functions/export/otlp-http.ts";
import { type OtlpOutcome, readHttpOutcome } from "#functions/export/otlp-outcome.ts";
import { decodeText, eachField, eachValue, readWire } from "#proto/wire.ts";
import type { Process, World } from "./world.ts";

/** How a backend treats the requests that arrive. */
export type BackendMood =
  /** Accepts them. */
  | "well"
  /** Ends the connection, the request unread. */
  | "down"
  /** Accepts them, and ends the connection before its answer. */
  | "loses answers"
  /** Never answers. */
  | "silent"
  /** Accepts them, and answers after half a minute. */
  | "slow"
  /** Answers so, and accepts nothing. */
  | "busy"
  | "failing"
  | "unauthorized"
  | "a sign-in page";

/** A record that was accepted. */
export interface Accepted {
  hostId: string;
  queueHex: string;
  sequence: number;
  text: string;
  /** The term of the lease under which it was sent. */
  term: string;
  /** Whether the exporter learned of it, and if not, why. */
  answer: "heard" | "late" | "lost";
  at: number;
}

/** A backend. */
export interface Backend {
  readonly process: Process;
  mood: BackendMood;
  /** Hosts of which it rejects each request, and those of which it rejects the items. */
  readonly rejectedHosts: Set<string>;
  readonly partialHosts: Set<string>;
  /** Whether a proxy on the way sends requests twice. */
  isDoubled: boolean;
  /** How long requests and answers travel. */
  delayMs: readonly [number, number];
  /** How often each was changed. */
  readonly turns: Record<"mood" | "isDoubled" | "delayMs", number>;
  readonly accepted: Accepted[];
  /** The hosts of which it ever rejected something, and the texts of items that it rejected in accepted requests. */
  readonly everRejected: Set<string>;
  readonly rejectedItems: Set<string>;
}

/** How outcomes are read: a planted fault. */
export interface BackendFault {
  takesLossForSuccess?: boolean;
  takesAnySuccess?: boolean;
}

/** How a backend is unless something happens to it. */
export const usualBackend: Pick<Backend, "mood" | "isDoubled" | "delayMs"> = {
  mood: "well",
  isDoubled: false,
  delayMs: [1, 20],
};

/** Creates a backend. */
export const createBackend = (world: World): Backend => ({
  process: world.process("backend"),
  ...usualBackend,
  turns: { mood: 0, isDoubled: 0, delayMs: 0 },
  accepted: [],
  rejectedHosts: new Set(),
  partialHosts: new Set(),
  everRejected: new Set(),
  rejectedItems: new Set(),
});

interface Answer {
  status: number;
  contentType?: string;
  retryAfter?: string;
  body?: Uint8Array;
}

const responses: Partial<Record<BackendMood, Answer>> = {
  busy: { status: 503, retryAfter: "3" },
  failing: { status: 502 },
  unauthorized: { status: 401 },
  "a sign-in page": {
    status: 200,
    contentType: "text/html",
    body: Buffer.from("<html>Sign in</html>"),
  },
};
const slowMs = 30_000;

/** What a backend does with a request: what it accepts, and its answer; null without one. */
export const answerOf = (
  backend: Pick<Backend, "mood" | "rejectedHosts" | "partialHosts">,
  records: readonly { hostId: string }[],
): { isAccepted: boolean; answer: Answer | null; afterMs: number } => {
  const { mood, rejectedHosts, partialHosts } = backend;
  const none = { isAccepted: false, afterMs: 0 };
  if (mood === "down") return { ...none, answer: null };
  if (mood === "silent") return { ...none, answer: null, afterMs: Number.POSITIVE_INFINITY };
  const fixed = responses[mood];
  if (fixed) return { ...none, answer: fixed };
  if (records.some(({ hostId }) => rejectedHosts.has(hostId)))
    return {
      ...none,
      answer: { status: 400, body: Buffer.from("a record of this host is not accepted") },
    };
  const rejected = records.filter(({ hostId }) => partialHosts.has(hostId)).length;
  // `partial_success`: 1 the count of rejected items.
  const body =
    rejected === 0 ? new Uint8Array() : Uint8Array.of(0x0a, 2, 0x08, Math.min(rejected, 127));
  const answer =
    mood === "loses answers" ? null : { status: 200, contentType: "application/x-protobuf", body };
  return { isAccepted: true, answer, afterMs: mood === "slow" ? slowMs : 0 };
};

/** Does with a request what the backend does, but for its answer. */
const receive = (backend: Backend, records: ReturnType<typeof recordsOf>) => {
  const { isAccepted, answer, afterMs } = answerOf(backend, records);
  const isRejected = ({ hostId }: { hostId: string }) =>
    backend.partialHosts.has(hostId) || (!isAccepted && backend.rejectedHosts.has(hostId));
  for (const { hostId } of records.filter(isRejected)) backend.everRejected.add(hostId);
  if (!isAccepted) return { answer, afterMs, accepted: [] };
  for (const { text } of records.filter(isRejected)) backend.rejectedItems.add(text);
  return { answer, afterMs, accepted: records.filter((record) => !isRejected(record)) };
};

/** Creates the client of a process. `term` names the lease under which it sends. */
export const createBackendClient = (
  world: World,
  {
    backend,
    client,
    term,
    fault = {},
  }: { backend: Backend; client: Process; term(): string; fault?: BackendFault | undefined },
): Pick<OtlpClient, "send"> => {
  const travel = () => world.chance.integer(...backend.delayMs);
  const reset = () =>
    lostResponse(Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" }));

  return {
    send: (_signal, request, timeoutMs = 10_000) =>
      new Promise<OtlpOutcome>((resolve) => {
        const records = recordsOf(request);
        const sentUnder = term();
        const ofRequest: Accepted[] = [];
        let isOver = false;
        const settle = (outcome: OtlpOutcome): void => {
          if (isOver) return;
          isOver = true;
          cancel();
          const isLoss = outcome.status === "retry" && outcome.reason.startsWith("no response");
          const isPage = outcome.status === "refused" && outcome.reason.startsWith("HTTP 200");
          const isTaken =
            (isLoss && fault.takesLossForSuccess) || (isPage && fault.takesAnySuccess);
          resolve(isTaken ? { status: "accepted", rejectedItems: 0, message: "" } : outcome);
        };
        const cancel = world.after(timeoutMs, () =>
          settle(lostResponse(new DOMException("timeout", "TimeoutError"))),
        );
        const arrive = (): void => {
          const { answer, afterMs, accepted } = receive(backend, records);
          ofRequest.push(
            ...accepted.map(
              (record): Accepted => ({
                ...record,
                term: sentUnder,
                at: world.now(),
                answer: answer === null || !client.isAlive ? "lost" : "late",
              }),
            ),
          );
          backend.accepted.push(...ofRequest);
          if (!Number.isFinite(afterMs)) return;
          world.as(client, () =>
            world.after(afterMs + travel(), () => {
              if (isOver) return;
              if (answer === null) return settle(reset());
              const { status, contentType, retryAfter, body = new Uint8Array() } = answer;
              for (const record of ofRequest) record.answer = "heard";
              settle(
                readHttpOutcome(status, {
                  contentType,
                  retryAfter,
                  body,
                  now: world.clockOf(client).now(),
                }),
              );
            }),
          );
        };
        /** A copy of the request, whose answer nobody waits for. */
        const arriveAgain = (): void => {
          const { accepted } = receive(backend, records);
          backend.accepted.push(
            ...accepted.map(
              (record): Accepted => ({
                ...record,
                term: sentUnder,
                at: world.now(),
                answer: "lost",
              }),
            ),
          );
        };
        world.as(backend.process, () => {
          const ms = travel();
          world.after(ms, arrive);
          if (backend.isDoubled) world.after(ms + travel(), arriveAgain);
        });
      }),
  };
};

/** Reads the records of an `ExportLogsServiceRequest` as functions/export/export-requests.ts writes it. */
export const recordsOf = (
  request: Uint8Array,
): Pick<Accepted, "hostId" | "queueHex" | "sequence" | "text">[] => {
  const records: ReturnType<typeof recordsOf> = [];
  readWire(request, (reader) => {
    /** Calls `visit` for each value of the fields along a path. */
    const along = (end: number, path: readonly number[], visit: (end: number) => void): void => {
      const [field = 0, ...rest] = path;
      eachValue(reader, end, field, (to) =>
        rest.length === 0 ? visit(to) : along(to, rest, visit),
      );
    };
    const text = (end: number): string => decodeText(request.subarray(reader.pos, end));
    const attributes = (end: number, field: number, found: Map<string, string>): void => {
      const start = reader.pos;
      along(end, [field], (to) => {
        let key = "";
        let value = "";
        eachField(reader, to, (tag, valueEnd) => {
          if (tag >>> 3 === 1) key = text(valueEnd);
          else along(valueEnd, [1], (textEnd) => (value = text(textEnd)));
        });
        found.set(key, value);
      });
      reader.pos = start;
    };
    along(request.length, [1], (resourceLogs) => {
      const resource = new Map<string, string>();
      const start = reader.pos;
      along(resourceLogs, [1], (end) => attributes(end, 1, resource));
      reader.pos = start;
      along(resourceLogs, [2, 2], (end) => {
        const found = new Map<string, string>();
        attributes(end, 6, found);
        const [queueHex = "", sequence] = (found.get("log.record.uid") ?? "").split("-");
        let body = "";
        along(end, [5, 1], (to) => (body = text(to)));
        const hostId = resource.get("svc.host.identity") ?? "";
        records.push({ hostId, queueHex, sequence: Number(sequence), text: body });
      });
    });
  });
  return records;
};
