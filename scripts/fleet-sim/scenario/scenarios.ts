import { createRandom } from "./random.ts";

/** The ways a host of a scenario can fare. Each ends in one health state, told by its comment where the name does not. */
export const roles = [
  "steady",
  /** Renews in the middle of the history. */
  "renewing",
  /** Holds a successor that it has not taken up yet. */
  "successor_waiting",
  /** Was cut off for a while, and has drained its queue. */
  "outage_over",
  /** Its clock is wrong by less than core tolerates. */
  "clock_off",
  /** Heartbeats, and has never forwarded. */
  "never_forwarded",
  "rolled_back",
  "drifted",
  /** One of its requests was signed by another key. */
  "proof_failed",
  // Healthy so far. Revoked:
  "identity_revoked",
  "certificate_revoked",
  "enrolling",
  // Renewal failed:
  "renewal_refused",
  "expired",
  // Stale:
  "down",
  /** Its clock has run away, so that its heartbeats are refused. */
  "clock_far",
  /** Enrolled and was never heard of. */
  "silent",
  /** Forwards, and its management requests never arrive. */
  "forwards_only",
  "cert_expiring",
  // Config invalid:
  "config_broken",
  "config_unreadable",
  // Unsupported version, where core demands a minimum; the second is not SemVer at all:
  "old_version",
  "odd_version",
  // Queue at risk:
  "queue_growing",
  "queue_dropping",
] as const;

/** One of `roles`. */
export type Role = (typeof roles)[number];

/** How many of a hundred hosts have a role; the rest is `steady`. */
const fleetShares: Readonly<Partial<Record<Role, number>>> = {
  renewing: 4,
  successor_waiting: 1,
  outage_over: 5,
  clock_off: 3,
  never_forwarded: 3,
  rolled_back: 2,
  drifted: 3,
  proof_failed: 1,
  identity_revoked: 2,
  certificate_revoked: 1,
  enrolling: 2,
  renewal_refused: 1,
  expired: 1,
  down: 3,
  clock_far: 1,
  silent: 1,
  forwards_only: 1,
  cert_expiring: 2,
  config_broken: 1,
  config_unreadable: 1,
  old_version: 2,
  odd_version: 1,
  queue_growing: 2,
  queue_dropping: 1,
};

const smokeShares: Readonly<Partial<Record<Role, number>>> = {
  renewing: 10,
  never_forwarded: 10,
  identity_revoked: 10,
  enrolling: 10,
  down: 10,
  queue_growing: 10,
};

/** The scenarios by name. */
export const scenarios = {
  smoke: { hosts: 10, shares: smokeShares },
  "fleet-100": { hosts: 100, shares: fleetShares },
  "fleet-1000": { hosts: 1000, shares: fleetShares },
} as const;

/** The name of a scenario. */
export type ScenarioName = keyof typeof scenarios;

/**
 * Deals out the roles: `count` of them in a random order, by the scenario's shares, every role of the scenario at least once where
 * there are hosts enough.
 */
export const castRoles = (scenario: ScenarioName, count: number, seed: number): Role[] => {
  const { shares } = scenarios[scenario];
  const cast = Object.entries(shares).flatMap(([role, share]) =>
    Array<Role>(Math.max(1, Math.floor((share * count) / 100))).fill(role as Role),
  );
  const steady = Array<Role>(Math.max(0, count - cast.length)).fill("steady");
  return createRandom(seed, "roles").shuffled([...cast.slice(0, count), ...steady]);
};
