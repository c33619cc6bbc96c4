import { createRandom } from "./random.ts";

/** The number of hosts of each role in a hundred; all others are `steady`. Each role ends in one health state. */
const fleetShares = {
  // Healthy:
  /** Renews in the middle of the history. */
  renewing: 4,
  /** Has a successor that it does not use yet. */
  successor_waiting: 1,
  /** Was disconnected for a while, and has drained its queue. */
  outage_over: 5,
  /** Its clock is wrong by less than core tolerates. */
  clock_off: 3,
  /** Heartbeats, and has never forwarded. */
  never_forwarded: 3,
  rolled_back: 2,
  drifted: 3,
  /** One of its requests was signed by another key. */
  proof_failed: 1,
  // Revoked:
  identity_revoked: 2,
  certificate_revoked: 1,
  enrolling: 2,
  // Renewal failed:
  renewal_refused: 1,
  expired: 1,
  // Stale:
  down: 3,
  /** Its clock is so far ahead that core rejects its heartbeats. */
  clock_far: 1,
  /** Enrolled, and never sent a heartbeat. */
  silent: 1,
  /** Forwards, but its management requests never arrive. */
  forwards_only: 1,
  cert_expiring: 2,
  // Config invalid:
  config_broken: 1,
  config_unreadable: 1,
  // Unsupported version, where core requires a minimum; the second is not SemVer:
  old_version: 2,
  odd_version: 1,
  // Queue at risk:
  queue_growing: 2,
  queue_dropping: 1,
  // Agents that speak OpAMP. Core returns the first, healthy, to the config before; the second has none to return to:
  agent_rolled_back: 1,
  agent_config_failed: 1,
  component_unhealthy: 1,
};

/** The role of a host in a scenario. */
export type Role = "steady" | keyof typeof fleetShares;

const smokeShares = {
  renewing: 10,
  never_forwarded: 10,
  identity_revoked: 10,
  enrolling: 10,
  down: 10,
  queue_growing: 10,
} satisfies Partial<Record<Role, number>>;

/** The scenarios by name. Of `agents` every host speaks OpAMP. */
export const scenarios = {
  smoke: { hosts: 10, shares: smokeShares },
  "fleet-100": { hosts: 100, shares: fleetShares },
  "fleet-1000": { hosts: 1000, shares: fleetShares },
  agents: { hosts: 200, shares: { agent_rolled_back: 5 } },
} as const;

/** The name of a scenario. */
export type ScenarioName = keyof typeof scenarios;

/**
 * Returns `count` roles in a random order by the scenario's shares. Every role occurs at least once if there are enough hosts.
 */
export const assignRoles = (scenario: ScenarioName, count: number, seed: number): Role[] => {
  const special = Object.entries(scenarios[scenario].shares).flatMap(([role, share]) =>
    Array<Role>(Math.max(1, Math.floor((share * count) / 100))).fill(role as Role),
  );
  const steady = Array<Role>(Math.max(0, count - special.length)).fill("steady");
  return createRandom(seed, "roles").shuffled([...special.slice(0, count), ...steady]);
};
