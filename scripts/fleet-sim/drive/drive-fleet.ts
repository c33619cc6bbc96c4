import type { Clock } from "../../../kit/clock.ts";
import type { Secret } from "../../../kit/secret.ts";
import { type Comparison, compareHealth } from "../health/compare-health.ts";
import { type FleetHealth, readHealth } from "../health/read-health.ts";
import type { ModelDatabase } from "../model/play-steps.ts";
import { predictHealth } from "../model/predict-health.ts";
import { stepsOf } from "../scenario/host-steps.ts";
import { createHost, createHosts, type Host } from "../scenario/hosts.ts";
import { createPlan, type Plan, type PlannedVersions } from "../scenario/plan.ts";
import type { ScenarioName } from "../scenario/scenarios.ts";
import { historyOf } from "../scenario/steps.ts";
import { createDrivenHost, type DriveMeans } from "./driven-host.ts";
import { createMeasurements, type Measurements } from "./measurements.ts";
import { observedHistories } from "./observed-history.ts";
import { createFleetOperator } from "./operator.ts";
import { createPlayer, EnrollmentEnded, type Part, type Player } from "./player.ts";
import { reportProgress } from "./report-progress.ts";
import { expectStatus, type Wire } from "./wire.ts";

/** What drives a fleet, and which. */
export interface DriveOptions {
  scenario: ScenarioName;
  seed: number;
  hosts: number;
  /** How long the history takes; at least five heartbeat intervals of core. These, or a minute, unless told. */
  durationSeconds?: number;
  /** Distinguishes this fleet's policies, and its identities unless a token brings a prefix, from those of other drives. */
  run: string;
  wire: Wire;
  /** A bridge token of an admin, asked for each call; null: only enroll and heartbeat, and compare nothing. */
  operatorToken: (() => Promise<string>) | null;
  /** A bootstrap token to enroll with, and a prefix that its policy allows; null: the operator makes policies and tokens. */
  bootstrap: { token: Secret; identityPrefix: string } | null;
  /** By which the history is played; with one that stands still unless slept by, `concurrency` must be 1. */
  clock: Clock;
  /** Whether the fleet enrolls in the weeks before the history: only where `clock` takes weeks in its stride. */
  isOld?: boolean;
  /**
   * Lays the history out by this heartbeat interval instead of core's, so that it may be short. Whoever asks for it holds core's
   * database and dates rows back afterwards (`DrivenFleet.hosts` tells whose), as core itself would need hours to see them so.
   */
  datedBack?: { intervalSeconds: number };
  /** What identities begin with, unless a token brings a prefix; it ends in a slash, and tells this fleet from others in core. */
  identityPrefix?: string;
  /** What hosts run; the simulation's releases unless told. */
  versions?: PlannedVersions;
  concurrency: number;
  ratePerSecond?: number;
  /** An empty database of core's schema, for as long as the prediction takes; null: nothing is predicted, nor compared. */
  withDatabase: (<Result>(use: (database: ModelDatabase) => Promise<Result>) => Promise<Result>) | null;
  signal: AbortSignal;
  progress(line: string): void;
}

/** What came of a drive. */
export interface DriveReport extends ReturnType<Measurements["report"]> {
  scenario: ScenarioName;
  seed: number;
  run: string;
  identity_prefix: string;
  hosts: number;
  seconds: number;
  /** Null where it could not be: there was no operator to read the report, or no database to predict it with. */
  comparison: Comparison | null;
  /** Why the history was not played to its end; null: it was. */
  stopped: string | null;
  ok: boolean;
}

/** A fleet whose history has been played. */
export interface DrivenFleet {
  report: DriveReport;
  /** Who is in it, each in the role that it plays. */
  hosts: readonly Host[];
  /** Plays on until the signal aborts: hosts that live heartbeat and forward, those that were refused try on, new ones enroll. */
  keep(signal: AbortSignal): Promise<void>;
}

/** Thresholds where nobody may ask core for them. */
const unknownThresholds = { heartbeat_interval_seconds: 60, min_version: null };
const historyIntervalsMin = 5;
/** From laying a history out to its beginning: every host must have taken its place by then. */
const leadMs = { least: 200, perHost: 0.1 };
/** New hosts come so often that some are always enrolling: well below the time that core gives them. */
const newcomersEveryMs = 10 * 60_000;
const toleranceMs = 5000;

/**
 * Plays a scenario against a live core with real keys, certificates and proofs, then compares its health report with the prediction:
 * that of core's own code over the steps that core took, at the times that it told. A drive that is stopped, by the signal or as core
 * enrolls nobody, reports what it did. Rejects when core cannot be asked at all.
 */
export const driveFleet = async (options: DriveOptions): Promise<DrivenFleet> => {
  const { clock, progress } = options;
  const report = liveReport(options);
  const thresholds = (await report?.({}))?.thresholds ?? unknownThresholds;
  const plan = await drivePlan(options, thresholds);
  const measure = reportProgress(createMeasurements(), options);
  const means = createMeans(options, plan);
  // Policy and token before anything else: without them there is nothing to play.
  if (options.bootstrap === null) await means.bootstrapToken("usual");
  const player = createPlayer({ ...options, measure, ratePerSecond: options.ratePerSecond });
  const join = (plan: Plan, host: Host, times: Part["times"]): Part => {
    const part = { driven: createDrivenHost(host, means), steps: stepsOf(plan, host), times };
    player.join(part);
    return part;
  };
  const parts = createHosts(plan).map((host) => join(plan, host, []));

  const startedAt = clock.monotonic();
  progress(`${plan.hosts} hosts, ${loadOf(plan, parts)}`);
  const stopped = await playHistory(player, plan, options);
  const seconds = Math.round((clock.monotonic() - startedAt) / 100) / 10;
  const measured = measure.report();
  tellLateness(measured.late_ms.p95, plan, progress);
  const live = stopped === null && options.withDatabase && (await report?.({ q: plan.identityPrefix }));
  progress(live ? "predicts the report and compares it" : "the report is not compared");
  const comparison = live ? await compare(options, plan, { parts, live }) : null;
  const { scenario, seed, run } = options;
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
    hosts: parts.map(({ driven }) => driven.host),
    async keep(until) {
      const enrolling = parts.filter(({ driven }) => driven.host.role === "enrolling");
      for (const part of parts) part.times = undefined;
      for (let count = 1; !until.aborted; count++) {
        const startsAt = clock.now();
        await player.play(startsAt + newcomersEveryMs, until);
        await clock.sleep(Math.max(0, startsAt + newcomersEveryMs - clock.now()), until).catch(() => undefined);
        // A history of the same length that begins now, at whose end newcomers have just enrolled.
        const later = { ...plan, startsAt: clock.now(), endsAt: clock.now() + plan.endsAt - plan.startsAt };
        for (const { driven } of enrolling)
          join(later, createHost(later, "enrolling", driven.host.index + count * plan.hosts), undefined);
      }
    },
  };
};

/** Plays to the end of the history; what stopped it before, if something did. */
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
    if (error instanceof EnrollmentEnded) return error.message;
    if (!signal.aborted) throw error;
    return signal.reason instanceof Error ? signal.reason.message : "stopped";
  }
};

const sampleHosts = 50;

/** How long the history is, and what it asks of core and of this machine, by the stories of some hosts. */
const loadOf = (plan: Plan, parts: readonly Part[]): string => {
  const sample = parts.slice(0, sampleHosts);
  let count = 0;
  for (const { driven } of sample)
    for (const { kind } of historyOf(plan, stepsOf(plan, driven.host))) if (kind !== "note") count++;
  const seconds = (plan.endsAt - plan.startsAt) / 1000;
  const steps = Math.round((count / sample.length) * plan.hosts);
  return `${seconds} s of history: some ${steps} steps, ${Math.ceil(steps / seconds)}/s`;
};

/** Who is heard too late counts as silent: the prediction knows, but the scenario is another one then. */
const tellLateness = (lateMs: number, plan: Plan, progress: (line: string) => void): void => {
  if (lateMs > plan.heartbeatIntervalSeconds * 1000)
    progress(
      `steps began up to ${Math.round(lateMs / 1000)} s late, so more hosts fell silent than the scenario has: take a longer --duration, fewer hosts, or more cores`,
    );
};

/** Reads core's report as the operator, if there is one. */
const liveReport = ({ wire, operatorToken }: DriveOptions) =>
  operatorToken === null
    ? undefined
    : (filter: Readonly<Record<string, string>>): Promise<FleetHealth> =>
        readHealth(
          async (path) => expectStatus(await wire.call({ method: "GET", path, bearer: await operatorToken() }), 200),
          filter,
        );

const drivePlan = async (
  options: DriveOptions,
  thresholds: Pick<FleetHealth["thresholds"], "heartbeat_interval_seconds" | "min_version">,
): Promise<Plan> => {
  const { scenario, seed, hosts, run, bootstrap, wire, clock, isOld = false } = options;
  const { datedBack, versions } = options;
  const beatSeconds = thresholds.heartbeat_interval_seconds;
  const heartbeatIntervalSeconds = datedBack?.intervalSeconds ?? beatSeconds;
  const secondsMin = historyIntervalsMin * heartbeatIntervalSeconds;
  const { durationSeconds = Math.max(secondsMin, 60) } = options;
  if (durationSeconds < secondsMin)
    throw new Error(`the history must take at least ${secondsMin} s, five heartbeat intervals of this core`);
  const chosen = {
    ...{ scenario, seed, hosts, durationSeconds, heartbeatIntervalSeconds, beatSeconds, isOld },
    identityPrefix: bootstrap?.identityPrefix ?? options.identityPrefix ?? `spiffe://fleet-sim.test/${run}/`,
    versionMin: thresholds.min_version,
    hasOperator: options.operatorToken !== null,
    canAge: (wire.age !== null || datedBack !== undefined) && !isOld,
    startsAt: clock.now() + leadMs.least + Math.ceil(hosts * leadMs.perHost),
    isDatedBack: datedBack !== undefined,
    forwards: wire.forward !== null,
    ...(versions === undefined ? {} : { versions }),
  };
  const plan = await createPlan(chosen);
  return plan.past === 0 ? plan : createPlan({ ...chosen, startsAt: chosen.startsAt + plan.past });
};

const createMeans = (options: DriveOptions, plan: Plan): DriveMeans => {
  const { wire, operatorToken, bootstrap, clock, run } = options;
  // How far core's clock is ahead of ours.
  let ahead = 0;
  const now = () => clock.now() + ahead;
  const operator = operatorToken && createFleetOperator(wire, { bearer: operatorToken, plan, run, now });
  return {
    wire,
    operator,
    now,
    hearTime(serverTime) {
      const difference = serverTime - clock.now();
      // What a request takes is no difference of clocks.
      ahead = Math.abs(difference) > toleranceMs ? difference : 0;
    },
    async bootstrapToken(ttl) {
      if (bootstrap !== null) return bootstrap.token.reveal();
      if (operator === null) throw new Error("neither a bootstrap token nor an operator who makes one");
      return operator.bootstrapToken(ttl);
    },
  };
};

const compare = async (
  options: DriveOptions,
  plan: Plan,
  { parts, live }: { parts: readonly Part[]; live: FleetHealth },
): Promise<Comparison | null> => {
  const told = observedHistories(plan, { parts, live, toleranceMs });
  const predicted = await options.withDatabase?.((database) =>
    predictHealth(database, { plan, told, pagesAt: live.pagesAt }),
  );
  if (predicted === undefined) return null;
  return compareHealth(predicted, live, { toleranceMs, isLifetimeKnown: options.bootstrap === null });
};
