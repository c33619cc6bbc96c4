import type { Clock } from "#kit/clock.ts";
import type { Secret } from "#kit/secret.ts";
import { withoutUndefined } from "#kit/without-undefined.ts";
import { type Comparison, compareHealth } from "../health/compare-health.ts";
import { type FleetHealth, readHealth } from "../health/read-health.ts";
import { type ModelDatabase, predictHealth } from "../model/predict-health.ts";
import { stepsOf } from "../scenario/host-steps.ts";
import { createHost, createHosts, type Host } from "../scenario/hosts.ts";
import { createPlan, type Plan, type PlannedVersions } from "../scenario/plan.ts";
import type { ScenarioName } from "../scenario/scenarios.ts";
import { createDrivenHost, type DriveContext } from "./driven-host.ts";
import { createMeasurements, type Measurements } from "./measurements.ts";
import { observedHistories } from "./observed-history.ts";
import { createFleetOperator } from "./operator.ts";
import { createPlayer, EnrollmentRefused, type PlayedHost, type Player } from "./player.ts";
import { expectStatus, type Wire } from "./wire.ts";

/** Which fleet to drive, and by what. */
export interface DriveOptions {
  scenario: ScenarioName;
  seed: number;
  hosts: number;
  /** Length of the history; at least five heartbeat intervals of core. These or a minute, whichever is longer, by default. */
  durationSeconds?: number;
  /** Distinguishes this fleet's policies, and its identities unless a token brings a prefix, from those of other drives. */
  run: string;
  wire: Wire;
  /** Returns a bridge token of an admin for each call; null: only enroll and heartbeat, and compare nothing. */
  operatorToken: (() => Promise<string>) | null;
  /** A bootstrap token to enroll with, and a prefix that its policy allows; null: the operator creates policies and tokens. */
  bootstrap: { token: Secret; identityPrefix: string } | null;
  /** The clock of the history; one that advances only by sleeping requires a `concurrency` of 1. */
  clock: Clock;
  /** Whether the fleet enrolls in the weeks before the history: only where `clock` can skip weeks. */
  isOld?: boolean;
  /**
   * Plans the history by this heartbeat interval instead of core's, so that it may be short. The caller has access to core's database
   * and dates rows back afterwards (`DrivenFleet.hosts`); core itself would need hours to reach these states.
   */
  datedBack?: { intervalSeconds: number };
  /** Prefix of identities, unless a token brings one; it ends in a slash, and distinguishes this fleet from others in core. */
  identityPrefix?: string;
  /** Versions of the hosts; the simulation's by default. */
  versions?: PlannedVersions;
  /** The least time between two frames of a host; a connection for each costs both ends more than all else that a host sends. */
  forwardEveryMs?: number;
  concurrency: number;
  ratePerSecond?: number;
  /** Runs a prediction with an empty database of core's schema; null: nothing is predicted and compared. */
  withDatabase:
    | (<Result>(use: (database: ModelDatabase) => Promise<Result>) => Promise<Result>)
    | null;
  signal: AbortSignal;
  progress(line: string): void;
}

/** The result of a drive. */
export interface DriveReport extends ReturnType<Measurements["report"]> {
  scenario: ScenarioName;
  seed: number;
  run: string;
  identity_prefix: string;
  hosts: number;
  seconds: number;
  /** Null without an operator to read the report, or without a database to predict it with. */
  comparison: Comparison | null;
  /** Why the drive stopped before the end of the history; null: it did not. */
  stopped: string | null;
  ok: boolean;
}

/** A fleet whose history has been played. */
export interface DrivenFleet {
  report: DriveReport;
  /** Its hosts, each in the role that it plays. */
  hosts: readonly Host[];
  /** Keeps playing until the signal aborts: running hosts heartbeat and forward, rejected ones retry, new ones enroll. */
  keep(signal: AbortSignal): Promise<void>;
}

type Thresholds = Pick<FleetHealth["thresholds"], "heartbeat_interval_seconds" | "min_version">;
/** Without an operator who may read core's. */
const unknownThresholds: Thresholds = { heartbeat_interval_seconds: 60, min_version: null };
const historyIntervalsMin = 5;
/** From planning a history to its start: time to create every host. */
const leadMs = { least: 200, perHost: 0.1 };
/** Well below the time after which core reports an enrolling host as stale, so that some hosts are always enrolling. */
const newcomersEveryMs = 10 * 60_000;
const toleranceMs = 5000;

/**
 * Plays a scenario against a live core with real keys, certificates and proofs, then compares its health report with the prediction
 * of core's own code from the steps that core accepted, at the times that it reported. A drive that the signal stops, or core by
 * rejecting all enrollments, reports what it did. Rejects when core cannot be reached at all.
 */
export const driveFleet = async (options: DriveOptions): Promise<DrivenFleet> => {
  const { clock, progress, operatorToken, wire, scenario, seed, run } = options;
  const readReport =
    operatorToken &&
    ((filter: Readonly<Record<string, string>>): Promise<FleetHealth> =>
      readHealth(
        async (path) =>
          expectStatus(
            await wire.call({ method: "GET", path, bearer: await operatorToken() }),
            200,
          ),
        filter,
      ));
  const plan = await planDrive(options, (await readReport?.({}))?.thresholds ?? unknownThresholds);
  const measure = createMeasurements(options);
  const context = createContext(options, plan);
  // Creates policy and token before anything else: without them no host can enroll.
  if (options.bootstrap === null) await context.bootstrapToken("usual");
  const player = createPlayer({ ...options, measure, ratePerSecond: options.ratePerSecond });
  const add = (plan: Plan, host: Host, times: PlayedHost["times"]): PlayedHost => {
    const entry = { driven: createDrivenHost(host, context), steps: stepsOf(plan, host), times };
    player.add(entry);
    return entry;
  };
  const hosts = createHosts(plan);
  const played = hosts.map((host) => add(plan, host, []));

  const startedAt = clock.monotonic();
  progress(`${plan.hosts} hosts, ${(plan.endsAt - plan.startsAt) / 1000} s of history`);
  const stopped = await playHistory(player, plan, options);
  const seconds = Math.round((clock.monotonic() - startedAt) / 100) / 10;
  const measured = measure.report();
  if (measured.late_ms.p95 > plan.heartbeatIntervalSeconds * 1000)
    progress(
      `steps began up to ${Math.round(measured.late_ms.p95 / 1000)} s late, so more hosts became silent than the scenario has: use a longer --duration, fewer hosts, or more cores`,
    );
  const live =
    stopped === null && options.withDatabase && (await readReport?.({ q: plan.identityPrefix }));
  progress(live ? "predicts the report and compares it" : "the report is not compared");
  const comparison = live ? await compare(options, plan, { played, live }) : null;
  return {
    report: {
      scenario,
      seed,
      run,
      identity_prefix: plan.identityPrefix,
      hosts: plan.hosts,
      seconds,
      ...measured,
      comparison,
      stopped,
      ok: stopped === null && (comparison?.ok ?? Object.keys(measured.failures).length === 0),
    },
    hosts,
    async keep(until) {
      const enrolling = hosts.filter(({ role }) => role === "enrolling");
      for (const entry of played) entry.times = undefined;
      for (let count = 1; !until.aborted; count++) {
        const endsAt = clock.now() + newcomersEveryMs;
        await player.play(endsAt, until);
        await clock.sleep(Math.max(0, endsAt - clock.now()), until).catch(() => undefined);
        // A history of the same length that starts now, at whose end the new hosts have just enrolled.
        const later = {
          ...plan,
          startsAt: clock.now(),
          endsAt: clock.now() + plan.endsAt - plan.startsAt,
        };
        for (const { index } of enrolling)
          add(later, createHost(later, "enrolling", index + count * plan.hosts), undefined);
      }
    },
  };
};

/** Plays to the end of the history. Returns why it stopped before, or null. */
const playHistory = async (
  player: Player,
  { endsAt }: Plan,
  { clock, signal }: DriveOptions,
): Promise<string | null> => {
  try {
    await player.play(endsAt, signal);
    signal.throwIfAborted();
    if (clock.now() < endsAt) await clock.sleep(endsAt - clock.now(), signal);
    return null;
  } catch (error) {
    if (error instanceof EnrollmentRefused) return error.message;
    if (!signal.aborted) throw error;
    return signal.reason instanceof Error ? signal.reason.message : "stopped";
  }
};

const planDrive = async (options: DriveOptions, thresholds: Thresholds): Promise<Plan> => {
  const {
    scenario,
    seed,
    hosts,
    run,
    bootstrap,
    wire,
    clock,
    isOld = false,
    datedBack,
    versions,
    forwardEveryMs,
  } = options;
  const beatSeconds = thresholds.heartbeat_interval_seconds;
  const heartbeatIntervalSeconds = datedBack?.intervalSeconds ?? beatSeconds;
  const secondsMin = historyIntervalsMin * heartbeatIntervalSeconds;
  const { durationSeconds = Math.max(secondsMin, 60) } = options;
  if (durationSeconds < secondsMin)
    throw new Error(
      `the history must take at least ${secondsMin} s, five heartbeat intervals of this core`,
    );
  const chosen = {
    scenario,
    seed,
    hosts,
    durationSeconds,
    heartbeatIntervalSeconds,
    beatSeconds,
    isOld,
    identityPrefix:
      bootstrap?.identityPrefix ?? options.identityPrefix ?? `spiffe://fleet-sim.test/${run}/`,
    versionMin: thresholds.min_version,
    hasOperator: options.operatorToken !== null,
    startsAt: clock.now() + leadMs.least + Math.ceil(hosts * leadMs.perHost),
    isDatedBack: datedBack !== undefined,
    forwards: wire.forward !== null,
    ...withoutUndefined({ versions, forwardEveryMs }),
  };
  const plan = await createPlan(chosen);
  return plan.past === 0 ? plan : createPlan({ ...chosen, startsAt: chosen.startsAt + plan.past });
};

const createContext = (options: DriveOptions, plan: Plan): DriveContext => {
  const { wire, operatorToken, bootstrap, clock, run } = options;
  let coreAheadMs = 0;
  const now = () => clock.now() + coreAheadMs;
  const operator =
    operatorToken && createFleetOperator(wire, { bearer: operatorToken, plan, run, now });
  return {
    wire,
    operator,
    now,
    configs: plan.configs,
    receiveServerTime(serverTime) {
      const difference = serverTime - clock.now();
      // Below the tolerance the difference is the time that a request takes.
      coreAheadMs = Math.abs(difference) > toleranceMs ? difference : 0;
    },
    async bootstrapToken(ttl) {
      if (bootstrap !== null) return bootstrap.token.reveal();
      if (operator === null)
        throw new Error("a drive needs a bootstrap token, or an operator who creates one");
      return operator.bootstrapToken(ttl);
    },
  };
};

const compare = async (
  { withDatabase, bootstrap }: DriveOptions,
  plan: Plan,
  { played, live }: { played: readonly PlayedHost[]; live: FleetHealth },
): Promise<Comparison | null> => {
  const histories = observedHistories(plan, { played, live, toleranceMs });
  const predicted = await withDatabase?.((database) =>
    predictHealth(database, { plan, histories, pagesAt: live.pagesAt }),
  );
  return predicted
    ? compareHealth(predicted, live, { toleranceMs, isLifetimeKnown: bootstrap === null })
    : null;
};
