import type { Core } from "#functions/core.ts";
import { describeCertificates } from "#functions/signer/describe-certificates.ts";
import { listExports } from "#functions/store/completeness/hour-facts.ts";
import { type CaBundleRow, findNewestBundle } from "#functions/store/system/ca-bundles.ts";
import {
  type CoreReport,
  findCoreReports,
  findPasswordEnd,
  type ReportedCredential,
} from "#functions/store/system/system.ts";
import { rfc3339 } from "#kit/clock.ts";
import { caChannels } from "#proto/management/ca-bundle.ts";
import type { CalendarEntry, SystemCalendar } from "#proto/system/calendar.ts";
import { type Credential, credentials, seenBy } from "#proto/system/credentials.ts";
import { certificateStateOf, coreStateOf } from "./report-system.ts";

/** A credential of one program, as far as its end is known. */
type Held = Omit<ReportedCredential, "name"> & { of: string };

/** The rows of the database from which the calendar is made. */
interface Known {
  reports: readonly CoreReport[];
  exports: readonly { name: string }[];
  passwordEnd: Date | null;
  /** The newest of each channel. */
  bundles: readonly CaBundleRow[];
}

/** Returns the credentials of this installation with their ends, what ends next first. */
export const readCalendar = async ({
  reports: db,
  clock,
}: Pick<Core, "reports" | "clock">): Promise<SystemCalendar> => {
  const now = clock.now();
  const [stored, exports, passwordEnd, ...newest] = await Promise.all([
    findCoreReports(db),
    listExports(db),
    findPasswordEnd(db),
    ...caChannels.map((channel) => findNewestBundle(db, channel)),
  ]);
  const bundles = newest.filter((bundle) => bundle !== undefined);
  const reports = stored.filter((report) => coreStateOf(report, stored, now) === "running");
  const items = Object.entries<Credential>(credentials)
    .flatMap(([name, credential]) => {
      const held = heldOf(name, credential, { reports, exports, passwordEnd, bundles });
      return entriesOf(name, credential, held, now);
    })
    .sort((a, b) => (a.ends_at ?? "never").localeCompare(b.ends_at ?? "never"));
  return { generated_at: rfc3339(now), items };
};

const heldOf = (name: string, { of = "core", ending }: Credential, known: Known): Held[] => {
  const cores = known.reports.flatMap(({ machine, credentials: reported }) =>
    (reported ?? []).filter((each) => each.name === name).map((each) => ({ ...each, of: machine })),
  );
  const published = known.bundles.find(({ channel }) => name === `${channel}_ca_bundle`);
  if (published) return [...cores, publishedOf(published)];
  const stated = { endsAt: null, parts: [], changedAt: null };
  if (of === "export")
    return known.exports.map((each) => ({ ...stated, of: `export ${each.name}` }));
  if (of === "core and web") return [...cores, { ...stated, of: "web" }];
  if (of !== "core") return [{ ...stated, of }];
  if (ending !== "role" || known.passwordEnd === null) return cores;
  const endsAt = rfc3339(known.passwordEnd.getTime());
  return cores.map((each) => ({ ...each, endsAt, parts: [{ subject: null, endsAt }] }));
};

/** Returns the roots that hosts have, or are about to have. */
const publishedOf = ({ pem }: CaBundleRow): Held => {
  const parts = describeCertificates(pem);
  const endsAt = lastOf(parts.map((part) => part.endsAt));
  return { of: "hosts", parts, endsAt, changedAt: null };
};

const lastOf = (times: readonly string[]) => times.toSorted().at(-1) ?? null;

/** Returns a line for each certificate, with all who have it. */
const entriesOf = (
  name: string,
  credential: Credential,
  held: readonly Held[],
  now: number,
): CalendarEntry[] => {
  const { what, ending, change, docs, away = "nothing" } = credential;
  const lines = held.flatMap(({ parts, endsAt: stopsAt, ...holder }) =>
    (parts.length > 0 ? parts : [{ subject: null, endsAt: null }]).map((part) => ({
      ...part,
      ...holder,
      stopsAt,
    })),
  );
  const same = Map.groupBy(lines, ({ subject, endsAt }) => JSON.stringify([subject, endsAt]));
  return Array.from(same.values(), (each) => {
    const [{ subject, endsAt, stopsAt } = { subject: null, endsAt: null, stopsAt: null }] = each;
    return {
      name,
      what,
      subject,
      of: each.map(({ of }) => of),
      ends_at: endsAt,
      ending,
      changed_at: lastOf(each.flatMap(({ changedAt }) => changedAt ?? [])),
      state: endsAt === null ? "ready" : endStateOf({ name, endsAt, stopsAt }, now),
      seen_by: seenBy(name, credential),
      change,
      docs: `docs/${docs}`,
      away,
    };
  });
};

/** Nothing stops when one authority of a bundle ends and another is still valid. */
const endStateOf = (
  { name, endsAt, stopsAt }: { name: string; endsAt: string; stopsAt: string | null },
  now: number,
): CalendarEntry["state"] => {
  const state = certificateStateOf(name, endsAt, now);
  return state === "not_ready" && endsAt < (stopsAt ?? endsAt) ? "warning" : state;
};
