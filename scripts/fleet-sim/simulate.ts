import { rfc3339 } from "#kit/clock.ts";
import type { FleetHealth } from "./health/read-health.ts";
import { stepsOf } from "./scenario/host-steps.ts";
import { createHosts, type Host } from "./scenario/hosts.ts";
import type { Plan } from "./scenario/plan.ts";
import {
  composeReport,
  type HostHistory,
  type Step,
  stepsUntilEnd,
  withoutOverwritten,
} from "./scenario/steps.ts";

/** One event: what happened when, and to which host. */
export type SimulatedEvent = { at: string; host?: string; event: string } & Readonly<
  Record<string, string | number | undefined>
>;

/** The output of `svc-fleet-sim`; see [simulated fleets](../../docs/fleet-sim.md). */
export interface SimulatedFleet {
  scenario: string;
  seed: number;
  thresholds: FleetHealth["thresholds"];
  hosts: Record<string, string | number>[];
  events: SimulatedEvent[];
  health: { by_state: FleetHealth["byState"]; rows: FleetHealth["rows"] };
}

/** Plays a scenario on a virtual clock; `predict` returns the health at its end. */
export const simulate = async (
  plan: Plan,
  predict: (histories: readonly HostHistory[]) => Promise<FleetHealth>,
): Promise<SimulatedFleet> => {
  const histories = createHosts(plan).map((host) => ({
    host,
    steps: [...stepsUntilEnd(plan, stepsOf(plan, host))],
  }));
  const health = await predict(histories.map(withoutOverwritten));
  return {
    scenario: plan.scenario,
    seed: plan.seed,
    thresholds: health.thresholds,
    hosts: histories.map(({ host, steps: [first] }) => hostView(host, first?.at ?? plan.startsAt)),
    events: eventsOf(plan, histories),
    health: { by_state: health.byState, rows: health.rows },
  };
};

const hostView = (host: Host, enrolledAt: number) => ({
  device_id: host.deviceId,
  identity: host.identity,
  hostname: host.hostname,
  platform: host.platform,
  agent: host.agent,
  version: host.version,
  role: host.role,
  config: host.management,
  enrolled_at: rfc3339(enrolledAt),
});

/** Returns every step of every host by time, then by host, with the start and the end of the history. */
const eventsOf = (plan: Plan, histories: readonly HostHistory[]): SimulatedEvent[] => {
  const steps = histories.flatMap(({ host, steps }) => steps.map((step) => ({ host, step })));
  // The sort is stable: steps of one host at one time keep their order.
  steps.sort((a, b) => a.step.at - b.step.at || a.host.index - b.host.index);
  const events = steps.map(({ host, step }) => eventView(plan, host, step));
  const start = steps.findIndex(({ step }) => step.at >= plan.startsAt);
  events.splice(Math.max(start, 0), 0, { at: rfc3339(plan.startsAt), event: "history.start" });
  return [...events, { at: rfc3339(plan.endsAt), event: "history.end" }];
};

const eventView = (plan: Plan, host: Host, step: Step): SimulatedEvent => {
  const on = { at: rfc3339(step.at), host: host.deviceId };
  switch (step.kind) {
    case "enroll":
      return { ...on, event: "enroll", certificate_ttl_seconds: plan.ttlSeconds[step.ttl] };
    case "heartbeat": {
      const { bytes, dropped_records_total } = composeReport(host, step.at, step.status).queue;
      return {
        ...on,
        event: "heartbeat",
        outcome: step.expected,
        queue_bytes: bytes,
        dropped_records_total,
      };
    }
    case "revoke_identity":
    case "revoke_certificate":
      return { ...on, event: step.kind.replace("_", "."), reason_code: step.reasonCode };
    case "assign":
      return {
        ...on,
        event: "config.assign",
        config_hash: plan.configs[host.agent][step.config].hash,
      };
    case "note":
      return { ...on, event: step.event, ...step.details };
    default:
      return { ...on, event: step.kind };
  }
};

/** Prints the simulation as one JSON value, with a line for each host, event and row. */
export const printSimulation = ({ hosts, events, health, ...head }: SimulatedFleet): string => {
  const lines = (items: readonly object[]) =>
    `[\n${items.map((item) => JSON.stringify(item)).join(",\n")}\n]`;
  return `${JSON.stringify(head).slice(0, -1)},
"hosts":${lines(hosts)},
"events":${lines(events)},
"health":{"by_state":${JSON.stringify(health.by_state)},"rows":${lines(health.rows)}}}
`;
};
