import { rfc3339 } from "#kit/clock.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { Core } from "../core.ts";
import {
  type CoreReport,
  findCoreReports,
  type ReportedCredential,
  upsertCoreReport,
} from "../store/system/system.ts";
import { type Check, runChecks } from "./readiness.ts";

/** Cores report this often. */
export const coreReportIntervalMs = 10_000;

/** A core's report on itself. */
interface ReportedCore {
  machine: string;
  version: string;
  /** The checks of the readiness endpoints, by endpoint. */
  checks: Readonly<Record<string, readonly Check[]>>;
  credentials(): readonly ReportedCredential[];
  /** The Forward streams that are open; null without ingest. */
  streams(): number | null;
  clockAheadMs(): number;
  isStopping(): boolean;
}

type ReportedCheck = CoreReport["checks"][number];

/** The column is a 32-bit integer; more than 24 days need no distinction. */
const clockAheadMsMax = 2 ** 31 - 1;

/** Creates a tick that stores the state of this core, with the time since when each check has its status, for `/system` (docs/operate.md). */
export const createCoreReporter = (
  { db, ...tools }: Pick<Core, "db" | "clock" | "entropy" | "log">,
  { machine, version, checks, ...core }: ReportedCore,
): { id: string; report(): Promise<undefined> } => {
  const { clock } = tools;
  const id = uuidv7(tools);
  const startedAt = new Date(clock.now());
  let stoppedAt: Date | null = null;
  let known: readonly ReportedCheck[] | undefined;

  const readChecks = async (
    endpoint: string,
    now: string,
    last: readonly ReportedCheck[],
  ): Promise<ReportedCheck[]> => {
    const report = await runChecks(checks[endpoint] ?? [], tools);
    return report.checks.map(({ name, status, detail }) => {
      const before = last.find((check) => check.endpoint === endpoint && check.name === name);
      // A time ahead is of a clock that was wrong.
      const since = before?.status === status && before.since < now ? before.since : now;
      return { endpoint, name, status, detail: detail ?? "", since };
    });
  };

  const report = async () => {
    const reportedAt = new Date(clock.now());
    const now = rfc3339(reportedAt.getTime());
    const last = known ?? (await findLastFaults(db, machine));
    known = (
      await Promise.all(Object.keys(checks).map((endpoint) => readChecks(endpoint, now, last)))
    ).flat();
    if (core.isStopping()) stoppedAt ??= reportedAt;
    const credentials = core.credentials();
    await upsertCoreReport(db, {
      id,
      machine,
      version,
      startedAt,
      reportedAt,
      stoppedAt,
      checks: known,
      streams: core.streams(),
      clockAheadMs: Math.max(
        -clockAheadMsMax,
        Math.min(Math.round(core.clockAheadMs()), clockAheadMsMax),
      ),
      certificates: Object.fromEntries(
        credentials.flatMap(({ name, endsAt }) => (endsAt === null ? [] : [[name, endsAt]])),
      ),
      credentials,
    });
    return undefined;
  };
  return { id, report };
};

/** Finds what was wrong with the core before on this machine: a restart does not change since when. */
const findLastFaults = async (db: Core["db"], machine: string) => {
  const last = (await findCoreReports(db)).findLast((each) => each.machine === machine);
  return last?.checks.filter(({ status }) => status !== "ready") ?? [];
};
