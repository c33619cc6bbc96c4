import { fullJitterMs } from "../../../kit/backoff.ts";
import type { WatchReceiver } from "../../config/watch-config.ts";
import type { Core } from "../../core.ts";
import {
  claimMessages,
  deleteMessage,
  deleteRepeated,
  type MessageRow,
  releaseMessage,
} from "../../store/watch/messages.ts";
import { addWatchEvent } from "../../store/watch/watches.ts";
import { repeatMs, type WatchRequest, watchRequest } from "./watch-request.ts";

/** What became of a request. */
export type SendOutcome =
  | { status: "delivered" }
  /** `isFinal`: the receiver wants no more of it. `afterMs`: what it asks to wait. */
  | { status: "failed"; reason: string; isFinal: boolean; afterMs: number | null };

/** Sends a request, within `sendMsMax`; never throws. */
export type SendRequest = (request: WatchRequest) => Promise<SendOutcome>;

type DeliveryCore = Pick<Core, "watches" | "db" | "clock" | "entropy" | "observe">;

/** The longest time of a request. */
export const sendMsMax = 10_000;
/** Beyond it another core sends the message again: the first is stopped, or unreachable. */
const leaseMs = 6 * sendMsMax;
const claimedMax = 32;
const retryBaseMs = 5_000;
const retryCapMs = 600_000;
const retryMsMin = 1_000;

/**
 * Sends the messages that are due, and returns how many. Those of a watch to a receiver go one after another: one that fails is repeated, with the
 * same id, and holds up the ones behind it. A receiver may get a message twice, when core ends before it stores that it was sent.
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
): Promise<void> => {
  const { db, clock, entropy, observe } = core;
  const outcome = await send(await watchRequest(receiver, message, clock.now()));
  const now = clock.now();
  const at = new Date(now);
  const after = (ms: number) => new Date(now + ms);
  const { watchId, body, failures } = message;
  const event = { watchId, at, receiver: receiver.name };
  if (outcome.status === "failed" && !outcome.isFinal) {
    observe.watchMessage(receiver.name, "failed");
    const jitterMs = fullJitterMs({
      attempt: failures,
      baseMs: retryBaseMs,
      capMs: retryCapMs,
      entropy,
    });
    const nextAttemptAt = after(Math.max(retryMsMin, jitterMs, outcome.afterMs ?? 0));
    await releaseMessage(db, message, {
      nextAttemptAt,
      failures: failures + 1,
      lastError: outcome.reason,
    });
    return;
  }
  observe.watchMessage(receiver.name, outcome.status === "delivered" ? "delivered" : "dropped");
  const isRepeated =
    outcome.status === "delivered" &&
    receiver.target.kind === "alertmanager" &&
    body.type === "watch.firing";
  await db.transaction(async (tx) => {
    if (isRepeated)
      await releaseMessage(tx, message, {
        nextAttemptAt: after(repeatMs),
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
