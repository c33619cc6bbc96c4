import type { WatchReceiver } from "#functions/config/watch-config.ts";
import type { Core } from "#functions/core.ts";
import {
  addWatchEvent,
  claimMessages,
  deleteMessage,
  deleteRepeated,
  type MessageRow,
  releaseMessage,
} from "#functions/store/watch/watches.ts";
import { fullJitterMs } from "#kit/backoff.ts";
import { rfc3339 } from "#kit/clock.ts";
import type { Secret } from "#kit/secret.ts";

/** The outcome of a request. */
type SendOutcome =
  | { status: "delivered" }
  /** `isFinal`: the receiver rejects the message. `afterMs`: the wait that it asks for. */
  | { status: "failed"; reason: string; isFinal: boolean; afterMs: number | null };

/** A request with a message. */
interface WatchRequest {
  url: string;
  headers: Readonly<Record<string, string>>;
  body: string;
  allowPrivate: boolean;
}

/** Sends a request, within `sendMsMax`; never throws. */
export type SendRequest = (request: WatchRequest) => Promise<SendOutcome>;

type DeliveryCore = Pick<Core, "watches" | "db" | "clock" | "entropy" | "observe">;

/** The longest time of a request. */
export const sendMsMax = 10_000;
/** After this time another core sends the message again: the first one has stopped, or is unreachable. */
const leaseMs = 6 * sendMsMax;
const claimedMax = 32;
const retryBaseMs = 5_000;
const retryCapMs = 600_000;
const retryMsMin = 1_000;

/**
 * Sends the messages that are due, and returns how many. Messages of a watch to a receiver are sent one after another: a failed one is
 * repeated with the same id, and delays those after it. A receiver may get a message twice if core ends before it stores that it was sent.
 */
export const deliverMessages = async (
  core: DeliveryCore,
  send: SendRequest,
  signal?: AbortSignal,
): Promise<number> => {
  const receivers = new Map(core.watches()?.receivers.map((each) => [each.name, each]));
  if (receivers.size === 0) return 0;
  let sent = 0;
  while (!signal?.aborted) {
    const now = core.clock.now();
    const claim = {
      now: new Date(now),
      until: new Date(now + leaseMs),
      receivers: [...receivers.keys()],
      limit: claimedMax,
    };
    const claimed = await core.db.transaction((tx) => claimMessages(tx, claim));
    await Promise.all(
      claimed.map(async (message) => {
        const receiver = receivers.get(message.receiver);
        if (receiver) await deliver(core, receiver, { message, send });
      }),
    );
    sent += claimed.length;
    if (claimed.length === 0) break;
  }
  return sent;
};

const deliver = async (
  core: DeliveryCore,
  receiver: WatchReceiver,
  { message, send }: { message: MessageRow; send: SendRequest },
) => {
  const { db, clock, observe } = core;
  const outcome = await send(await watchRequest(receiver, message, clock.now()));
  if (outcome.status === "failed" && !outcome.isFinal) {
    observe.watchMessage(receiver.name, "failed");
    return retryLater(core, message, outcome);
  }
  const at = new Date(clock.now());
  const { watchId, body } = message;
  const event = { watchId, at, receiver: receiver.name };
  observe.watchMessage(receiver.name, outcome.status === "delivered" ? "delivered" : "dropped");
  const isRepeated =
    outcome.status === "delivered" &&
    receiver.target.kind === "alertmanager" &&
    body.type === "watch.firing";
  await db.transaction(async (tx) => {
    if (isRepeated)
      await releaseMessage(tx, message, {
        nextAttemptAt: new Date(at.getTime() + repeatMs),
        failures: 0,
        lastError: null,
        deliveredAt: at,
      });
    else if (!(await deleteMessage(tx, message))) return;
    if (body.type === "watch.resolved") await deleteRepeated(tx, message);
    if (outcome.status === "failed")
      await addWatchEvent(tx, { ...event, kind: "dropped", detail: outcome.reason });
    else if (message.deliveredAt === null)
      await addWatchEvent(tx, { ...event, kind: "delivered", detail: body.type });
  });
};

const retryLater = (
  { db, clock, entropy }: DeliveryCore,
  message: MessageRow,
  { reason, afterMs }: Extract<SendOutcome, { status: "failed" }>,
) => {
  const attempt = message.failures;
  const backoff = { attempt, baseMs: retryBaseMs, capMs: retryCapMs, entropy };
  const waitMs = Math.max(retryMsMin, fullJitterMs(backoff), afterMs ?? 0);
  return releaseMessage(db, message, {
    nextAttemptAt: new Date(clock.now() + waitMs),
    failures: attempt + 1,
    lastError: reason,
  });
};

/**
 * The interval at which Alertmanager is notified that a watch still fires; it considers the alert ended after four intervals without a
 * request.
 */
const repeatMs = 60_000;

/** Returns the request that sends a message to a receiver now. */
const watchRequest = async (
  receiver: WatchReceiver,
  message: MessageRow,
  now: number,
): Promise<WatchRequest> => {
  const { url, allowPrivate, target } = receiver;
  const commonHeaders = { "content-type": "application/json", "user-agent": "svc-server" };
  if (target.kind === "webhook") {
    const body = JSON.stringify(message.body);
    const headers = await webhookHeaders(target.secrets, { id: message.id, now, body });
    return { url, allowPrivate, headers: { ...commonHeaders, ...headers }, body };
  }
  const token = target.bearerToken;
  return {
    url: `${url}/api/v2/alerts`,
    allowPrivate,
    headers: {
      ...commonHeaders,
      ...(token === null ? {} : { authorization: `Bearer ${token.reveal()}` }),
    },
    body: JSON.stringify([alertOf(message, target.labels, now)]),
  };
};

/** Returns the headers of Standard Webhooks, with a signature by each secret, so that a receiver can change its own at any time. */
const webhookHeaders = async (
  secrets: readonly Secret[],
  { id, now, body }: { id: string; now: number; body: string },
): Promise<Record<string, string>> => {
  const timestamp = String(Math.floor(now / 1000));
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  const signatures = secrets.map(async (secret) => {
    const key = Uint8Array.fromBase64(secret.reveal().slice("whsec_".length));
    const hmac = { name: "HMAC", hash: "SHA-256" };
    const imported = await crypto.subtle.importKey("raw", key, hmac, false, ["sign"]);
    return `v1,${new Uint8Array(await crypto.subtle.sign(hmac.name, imported, signed)).toBase64()}`;
  });
  const signature = (await Promise.all(signatures)).join(" ");
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature };
};

/** An alert of Alertmanager's API, version 2: its labels are its identity. */
const alertOf = (
  { body: { type, timestamp, data } }: MessageRow,
  labels: Readonly<Record<string, string>>,
  now: number,
) => {
  const { watch, count, since, common_factor: factor } = data;
  const endsAt = type === "watch.resolved" ? timestamp : rfc3339(now + 4 * repeatMs);
  const hosts = count === 1 ? "1 host matches" : `${count ?? "no"} hosts match`;
  return {
    labels: {
      ...labels,
      alertname: type === "watch.test" ? "SvcWatchTest" : "SvcWatch",
      watch: watch.name,
      watch_id: watch.id,
    },
    annotations: {
      summary: `${hosts} ${watch.filter || "(every host)"}, more than ${watch.more_than}`,
      ...(data.line === undefined ? {} : { line: data.line }),
      ...(factor === null
        ? {}
        : { common_factor: `${factor.kind} ${factor.value}: ${factor.selected} of them` }),
    },
    startsAt: since ?? timestamp,
    endsAt,
    generatorURL: data.url,
  };
};
