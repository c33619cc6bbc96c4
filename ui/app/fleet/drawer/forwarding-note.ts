import type { FleetHealthRow } from "../../../../proto/fleet-health/row.ts";
import { formatAgo, formatBytes, plainText, type TimeZone } from "../../format/format.ts";
import { holdText } from "../table/row-view.ts";

/**
 * Returns what an operator must know about the forwarding of a host, beside its state, which does not depend on it: that it stopped or
 * never began, or that its budget holds it, what waits in the queue, and the collector's own error. Undefined while it forwards, and for a
 * host that sends nothing.
 */
export const forwardingNote = (
  {
    forwarding,
    last_envelope_at,
    queue,
    forwarder,
    hold,
  }: Pick<FleetHealthRow, "forwarding" | "last_envelope_at" | "queue" | "forwarder" | "hold">,
  now: number,
  zone: TimeZone = "utc",
): string | undefined => {
  const waiting =
    queue.bytes === null || queue.bytes === 0
      ? "the queue is empty"
      : `${formatBytes(queue.bytes)} queued`;
  if (hold !== undefined)
    return `No fault: it is ${holdText(hold, { now, zone })}, and sends what it keeps then; ${waiting}.`;
  if (isForwardingWell({ forwarding })) return undefined;
  const what =
    forwarding === "never" || last_envelope_at === null
      ? "Never forwarded"
      : `Stopped forwarding: last envelope ${formatAgo(last_envelope_at, now)}`;
  return `${what}; ${waiting}; ${forwarderText(forwarder)}.`;
};

/** Whether a host forwards, or has nothing to forward. */
export const isForwardingWell = ({ forwarding }: Pick<FleetHealthRow, "forwarding">): boolean =>
  forwarding !== "stopped" && forwarding !== "never";

/** Returns the collector's own report of its connection to core, in words. That core holds it by its budget is no error. */
export const forwarderText = (forwarder: FleetHealthRow["forwarder"]): string => {
  if (forwarder === null) return "not reported";
  if (forwarder.last_error?.startsWith("budget_exceeded:")) return "held by its budget";
  const error =
    forwarder.last_error === null ? "" : `, last error: ${plainText(forwarder.last_error)}`;
  return `${forwarder.connected ? "connected to core" : "not connected to core"}${error}`;
};
