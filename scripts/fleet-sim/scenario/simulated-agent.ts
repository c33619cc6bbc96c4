import { createHash } from "node:crypto";
import { createOpampAgent, type OpampAgent } from "#scripts/lab/opamp-agent.ts";
import type { Host } from "./hosts.ts";

/** Creates the agent of a host that speaks OpAMP; it applies what core sends. */
export const createSimulatedAgent = (host: Host): OpampAgent =>
  createOpampAgent({
    instanceUid: createHash("sha256").update(host.identity).digest().subarray(0, 16),
    hostname: host.hostname,
    version: host.version,
    platform: host.platform,
    labels: host.labels,
    startedAt: Date.UTC(2026, 0, 1),
  });
