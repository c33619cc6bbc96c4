import { runEvery } from "../../kit/run-every.ts";
import type { Core } from "../core.ts";
import { deliverMessages, type SendRequest } from "../domain/watch/deliver.ts";
import { evaluateWatches, evaluationMs, expireWatches, type WatchJobCore } from "../domain/watch/run-watches.ts";

const deliveryMs = 2_000;

/**
 * Evaluates the watches every ten seconds, and sends their messages every two, until the signal aborts. Several cores may run it: one of them
 * evaluates a watch, and one sends a message.
 */
export const runWatches = async (
  core: WatchJobCore & Pick<Core, "log">,
  { send, signal }: { send: SendRequest; signal: AbortSignal },
): Promise<void> => {
  const { clock, log } = core;
  const evaluate = runEvery({ name: "watches", intervalMs: evaluationMs, clock, signal, log }, async () => {
    await evaluateWatches(core, signal);
    const dropped = await expireWatches(core);
    return dropped === 0 ? undefined : { dropped };
  });
  const deliver = runEvery({ name: "watch messages", intervalMs: deliveryMs, clock, signal, log }, async () => {
    const sent = await deliverMessages(core, send, signal);
    return sent === 0 ? undefined : { sent };
  });
  await Promise.all([evaluate, deliver]);
};
