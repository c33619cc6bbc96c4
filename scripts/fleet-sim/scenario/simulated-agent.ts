import { createHash } from "node:crypto";
import { createOpampAgent, type OpampAgent, pollOpamp } from "#scripts/lab/opamp-agent.ts";
import type { Host } from "./hosts.ts";
import type { Plan } from "./plan.ts";
import type { HostStatus } from "./steps.ts";

/** The agent of a host that speaks OpAMP. */
export interface SimulatedAgent extends Pick<OpampAgent, "running"> {
  /** Reports its status, and takes and applies what core sends. */
  poll(
    status: Pick<HostStatus, "component">,
    post: (message: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>,
  ): Promise<void>;
}

/**
 * Creates the agent of a host. It applies what core sends; in the roles that fail it cannot run the current config: every other one runs it
 * and is unhealthy.
 */
export const createSimulatedAgent = ({ configs }: Pick<Plan, "configs">, host: Host) => {
  const fails = host.role === "agent_rolled_back" || host.role === "agent_config_failed";
  const agent = createOpampAgent({
    instanceUid: createHash("sha256").update(host.identity).digest().subarray(0, 16),
    hostname: host.hostname,
    version: host.version,
    platform: host.platform,
    labels: host.labels,
    startedAt: Date.UTC(2026, 0, 1),
    obeys: (yaml) => {
      if (!fails || yaml !== configs.otelcol.current.yaml) return "applies";
      return host.index % 2 === 0 ? "fails" : "unhealthy";
    },
  });
  let failedSince: number | undefined;
  const simulated: SimulatedAgent = {
    get running() {
      return agent.running;
    },
    async poll({ component }, post) {
      if (component && component.since !== failedSince)
        agent.fail(component.lastError, component.since);
      failedSince = component?.since;
      await pollOpamp(agent, post);
    },
  };
  return simulated;
};
