import type { Core } from "#functions/core.ts";
import { type ExportLag, findExportLags } from "#functions/store/export/lag.ts";
import { findOutages } from "#functions/store/fleet/core-sessions.ts";
import {
  findRetentionPause,
  type RetentionPause,
} from "#functions/store/retention/retention-pause.ts";
import {
  type CoreReport,
  countHostsByCore,
  findCoreReports,
  findSignIns,
  type ReportedSignIn,
  readDatabaseFigures,
} from "#functions/store/system/system.ts";
import { dayMs, rfc3339 } from "#kit/clock.ts";
import type { CalendarEntry } from "#proto/system/calendar.ts";
import {
  type PartState,
  partStates,
  type SystemPart,
  type SystemReport,
} from "#proto/system/report.ts";
import { fleetThresholds } from "../fleet/thresholds.ts";

/** A core that has not reported for this long is silent: three reports. */
const silentMs = 30_000;
const outageDays = 7;

/** From these values on, the alerts of docs/alerts.md fire too. */
export const systemThresholds = {
  exportLagSeconds: 900,
  /** For all but the server certificate of ingest, which cert-manager may renew later than that. */
  certificateDays: 30,
  ingestServerDays: 7,
  certificateLastDays: 1,
} as const;

/** Reports the state of each part of the system: what each core reports of itself, and what all cores share in the database. */
export const reportSystem = async ({
  reports: db,
  clock,
  config,
}: Pick<Core, "reports" | "clock" | "config">): Promise<SystemReport> => {
  const now = clock.now();
  const recentFrom = new Date(now - fleetThresholds(config).staleAfterSeconds * 1000);
  const [stored, hosts, signIns, lags, pause, figures, outages] = await Promise.all([
    findCoreReports(db),
    countHostsByCore(db, recentFrom),
    findSignIns(db, new Date(now - dayMs)),
    findExportLags(db),
    findRetentionPause(db),
    readDatabaseFigures(db),
    findOutages(db, new Date(now)),
  ]);
  const cores = stored.map((report) => ({ report, state: coreStateOf(report, stored, now) }));
  const parts = [
    ...cores.flatMap(({ report, state }) => corePartsOf(report, state, now)),
    ...streamPartsOf(stored.filter((report) => takesStreams(report, now))),
    webPartOf(signIns),
    ...lags.map((lag) => exportPartOf(lag, now)),
    retentionPartOf(pause),
  ].sort((a, b) => rankOf(b.state) - rankOf(a.state));
  return {
    generated_at: rfc3339(now),
    state: parts[0]?.state ?? "ready",
    parts,
    cores: cores.map(({ report, state }) => ({
      id: report.id,
      machine: report.machine,
      version: report.version,
      state,
      started_at: rfc3339(report.startedAt.getTime()),
      reported_at: rfc3339(report.reportedAt.getTime()),
      streams: state === "running" ? report.streams : null,
      hosts: hosts.get(report.machine) ?? 0,
      clock_ahead_seconds: report.clockAheadMs / 1000,
    })),
    database: {
      version: figures.version,
      bytes: figures.bytes,
      telemetry_bytes: figures.telemetryBytes,
      oldest_day: figures.oldestDay && rfc3339(figures.oldestDay.getTime()),
      retention_days: config.ingest?.retentionDays ?? null,
      slow_statements: figures.slowStatements,
      slowest_seconds: figures.slowestSeconds,
      standbys: figures.standbys.map(({ name, lagSeconds }) => ({ name, lag_seconds: lagSeconds })),
    },
    outages: outages
      .filter(
        ({ endedAt, isClockSkip }) =>
          !isClockSkip && (endedAt?.getTime() ?? now) > now - outageDays * dayMs,
      )
      .map(({ beganAt, endedAt }) => ({
        began_at: rfc3339(beganAt.getTime()),
        ended_at: endedAt && rfc3339(endedAt.getTime()),
      })),
  };
};

type CoreState = SystemReport["cores"][number]["state"];

const rankOf = (state: PartState) => partStates.indexOf(state);

/** Returns the state of a core. A killed one counts as stopped as soon as another one has started on its machine. */
export const coreStateOf = (
  report: CoreReport,
  all: readonly CoreReport[],
  now: number,
): CoreState => {
  if (report.stoppedAt !== null) return "stopped";
  if (report.reportedAt.getTime() > now - silentMs) return "running";
  const isReplaced = all.some(
    ({ machine, startedAt }) => machine === report.machine && startedAt > report.reportedAt,
  );
  return isReplaced ? "stopped" : "silent";
};

const corePartsOf = (report: CoreReport, state: CoreState, now: number): SystemPart[] => {
  const { machine, checks, certificates, reportedAt } = report;
  if (state === "stopped") return [];
  if (state === "silent") {
    const since = rfc3339(reportedAt.getTime());
    const detail = "It has stopped reporting: it ended, hangs, or cannot reach the database.";
    return [{ area: "core", of: machine, name: "process", state: "not_ready", detail, since }];
  }
  return [
    // Two endpoints run some checks, under one name.
    ...checks
      .filter(({ name }, index) => checks.findIndex((each) => each.name === name) === index)
      .map(({ name, status: state, detail, since }) => ({
        area: "core" as const,
        of: machine,
        name,
        state,
        detail,
        since,
      })),
    ...Object.entries(certificates).map(([name, expiresAt]) =>
      certificatePartOf({ machine, name, expiresAt }, now),
    ),
  ];
};

/** A core with up to so many times the mean has its share of the streams. */
const shareMax = 1.25;
/** So few streams more than the mean are no load: a small fleet would move for ever. */
const surplusMin = 20;

/** Reports whether hosts can be sent to a core: it has reported lately, serves ingest, is ready and does not stop. */
export const takesStreams = (report: CoreReport, now: number): boolean =>
  report.stoppedAt === null &&
  report.streams !== null &&
  report.reportedAt.getTime() > now - silentMs &&
  report.checks.every(({ status }) => status !== "not_ready");

/** Returns how many streams a core has above the mean of all; 0 while that is its share. */
export const surplusOf = (streams: number, ofAll: readonly number[]): number => {
  const mean = ofAll.reduce((sum, count) => sum + count, 0) / ofAll.length;
  const surplus = Math.floor(streams - mean);
  return streams > mean * shareMax && surplus >= surplusMin ? surplus : 0;
};

/** Returns the cores that have more than their share of the streams. */
const streamPartsOf = (reports: readonly CoreReport[]): SystemPart[] => {
  const ofAll = reports.map(({ streams }) => streams ?? 0);
  return reports
    .filter(({ streams }) => surplusOf(streams ?? 0, ofAll) > 0)
    .map(({ machine, streams }) => ({
      area: "core",
      of: machine,
      name: "streams",
      state: "warning",
      detail: `It has ${streams} of the ${ofAll.reduce((sum, count) => sum + count, 0)} streams of ${ofAll.length} cores, and moves some.`,
      since: null,
    }));
};

/** From so many people on whom web refused one after the other, it is no longer they who are wrong. */
const refusedPeopleMin = 3;

/** Reports whether people can sign in, by what web has reported in the last day. */
const webPartOf = (signIns: readonly ReportedSignIn[]): SystemPart => {
  const first = signIns.findIndex(({ reasonCode }) => reasonCode === null);
  const last = signIns[first];
  const refused = first < 0 ? signIns : signIns.slice(0, first);
  const people = new Set(refused.map(({ person }) => person)).size;
  const isIll = people >= refusedPeopleMin;
  const begin = refused.at(-1);
  const facts = [
    ...(people > 0
      ? [`${people} people in a row were refused, the last for ${refused[0]?.reasonCode}.`]
      : []),
    last
      ? `The last sign-in was at ${rfc3339(last.at.getTime())}.`
      : "Nobody has signed in for a day.",
  ];
  return {
    area: "core",
    of: null,
    name: "sign_ins",
    state: isIll ? "warning" : "ready",
    detail: facts.join(" "),
    since: isIll && begin ? rfc3339(begin.at.getTime()) : null,
  };
};

const certificatePartOf = (
  { machine, name, expiresAt }: { machine: string; name: string; expiresAt: string },
  now: number,
): SystemPart => {
  const state = certificateStateOf(name, expiresAt, now);
  const isPast = Date.parse(expiresAt) < now;
  const detail = `It ${isPast ? "expired" : "expires"} on ${expiresAt.slice(0, 10)}.`;
  return { area: "certificate", of: machine, name, state, detail, since: null };
};

/** Returns the state of a credential that ends then. */
export const certificateStateOf = (
  name: string,
  endsAt: string,
  now: number,
): CalendarEntry["state"] => {
  const days = (Date.parse(endsAt) - now) / dayMs;
  const { certificateDays, ingestServerDays, certificateLastDays } = systemThresholds;
  if (days < certificateLastDays) return "not_ready";
  return days < (name === "ingest_server" ? ingestServerDays : certificateDays)
    ? "warning"
    : "ready";
};

const exportPartOf = (lag: ExportLag, now: number): SystemPart => {
  const { name, isRunning, lastError, envelopes, ageSeconds, unaccounted, deadLetters } = lag;
  const isBehind = ageSeconds > systemThresholds.exportLagSeconds;
  const facts = [
    ...(isRunning ? [] : ["It is not running."]),
    ...(lastError === null ? [] : [`Its requests fail: ${lastError}.`]),
    envelopes === 0
      ? "Everything stored is delivered."
      : `${envelopes} envelopes wait, the oldest for ${Math.round(ageSeconds)} s.`,
    ...(unaccounted > 0 ? [`It has passed over ${unaccounted} stored envelopes.`] : []),
    ...(deadLetters > 0 ? [`Its backend rejected ${deadLetters} envelopes.`] : []),
  ];
  const isFailing = !isRunning || isBehind || unaccounted > 0;
  const reducedState = lastError !== null || deadLetters > 0 ? "warning" : "ready";
  const state = isFailing ? "not_ready" : reducedState;
  const since = isFailing && envelopes > 0 ? rfc3339(now - ageSeconds * 1000) : null;
  return { area: "export", of: name, name: "delivery", state, detail: facts.join(" "), since };
};

const retentionPartOf = (pause: RetentionPause | null): SystemPart => ({
  area: "database",
  of: null,
  name: "retention",
  state: pause === null ? "ready" : "warning",
  detail:
    pause === null
      ? "Stored days are dropped as they end."
      : `The database's clock jumped from ${pause.from.toISOString()}: no stored day is dropped until ${pause.until.toISOString()}.`,
  since: pause && rfc3339(pause.to.getTime()),
});
