import { expect, it } from "vitest";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import { queueFigures } from "#tests/support/queue-figures.ts";
import { forwarderText, forwardingNote } from "./detail-view.ts";

const now = Date.parse("2026-11-22T10:00:00.000Z");
const queue = (bytes: number | null) => queueFigures({ bytes });
const error = "connect ECONNREFUSED 192.0.2.1:8443";
const failing = { connected: false, last_ack_at: null, last_error: error };
const well = { connected: true, last_ack_at: null, last_error: null };

it.each<
  [
    Pick<FleetHealthRow, "forwarding" | "last_envelope_at" | "queue" | "forwarder" | "hold">,
    string | undefined,
  ]
>([
  [
    { forwarding: "never", last_envelope_at: null, queue: queue(31_457_280), forwarder: failing },
    `Never forwarded; 30 MiB queued; not connected to core, last error: ${error}.`,
  ],
  [
    {
      forwarding: "stopped",
      last_envelope_at: "2026-11-22T08:00:00.000Z",
      queue: queue(0),
      forwarder: well,
    },
    "Stopped forwarding: last envelope 2 h ago; the queue is empty; connected to core.",
  ],
  [
    {
      forwarding: "forwarding",
      last_envelope_at: "2026-11-22T09:59:00.000Z",
      queue: queue(5),
      forwarder: well,
    },
    undefined,
  ],
  [
    {
      forwarding: "stopped",
      last_envelope_at: "2026-11-22T09:20:00.000Z",
      queue: queue(31_457_280),
      forwarder: failing,
      hold: { budget: "test", since: "2026-11-22T09:20:00Z", until: "2026-11-22T11:00:00Z" },
    },
    "No fault: it is held by its budget test until 11:00:00 UTC, then sends its queue; 30 MiB queued.",
  ],
  [{ forwarding: null, last_envelope_at: null, queue: queue(null), forwarder: null }, undefined],
])("says what forwarding needs beside the state: %j", (row, note) =>
  expect(forwardingNote(row, now)).toBe(note),
);

it("reports that core holds the host as no error of its forwarder, and any other error as one", () => {
  const refusal =
    "budget_exceeded: core holds the host by its budget test until 2026-11-22T11:00:00.000Z";
  expect(forwarderText({ ...failing, last_error: refusal })).toBe("held by its budget");
  expect(forwarderText(failing)).toBe(`not connected to core, last error: ${error}`);
});
