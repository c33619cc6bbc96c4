/**
 * Publishes the CA bundle that a file of core has. Invariants:
 * - All cores decide under one lock, so that one of them publishes what all of their files have.
 * - A core whose file was not changed publishes only what was never published: a replica with an old mount undoes nothing.
 * - A number is above every one that counts (`readReportedNumbers`), since hosts take no lower one.
 */
import type { Core } from "#functions/core.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  type CaBundleRow,
  findNewestBundle,
  insertCaBundle,
  isReportedAbove,
  lockCaBundles,
  readReportedNumbers,
  wasPublished,
} from "#functions/store/system/ca-bundles.ts";
import { minuteMs } from "#kit/clock.ts";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import { coreActor, recordAudit } from "../audit/audit-log.ts";

/** The PEM of a bundle, and its SHA-256. */
export type CaBundleContent = Pick<CaBundleRow, "pem" | "sha256">;

/** A file that has the bundle of a channel. */
interface CaBundleFile {
  channel: CaChannel;
  /** Returns its newest valid content; null before it had any. */
  current(): CaBundleContent | null;
}

type PublishCore = Pick<Core, "db" | "clock" | "entropy" | "log">;

/** Creates the publisher of a file; call `publish` every few seconds. */
export const createBundlePublisher = (core: PublishCore, { channel, current }: CaBundleFile) => {
  /** The content of this core's last decision, and the newest number after it. */
  let decided: { sha256: string; number: number } | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let warning: string | undefined;

  /** Looks at most once a minute whether hosts report a number that this database has lost. */
  const isLost = async (number: number) => {
    const now = core.clock.monotonic();
    if (now - lookedAt < minuteMs) return false;
    lookedAt = now;
    return isReportedAbove(core.db, channel, number);
  };

  const warnOf = (found: string | undefined) => {
    if (found !== undefined && warning === undefined) core.log.warn({ channel }, found);
    warning = found;
  };

  return {
    /** Returns that hosts get another bundle than this core's file has; undefined if they get this one. */
    warning: () => warning,
    publish: async (): Promise<object | undefined> => {
      const content = current();
      if (content === null) return undefined;
      const { sha256 } = content;
      const known = await findNewestBundle(core.db, channel);
      const isDecided = decided?.sha256 === sha256 && decided.number === known?.number;
      if (isDecided && !(await isLost(decided?.number ?? 0))) return undefined;
      const isChanged = decided !== undefined && decided.sha256 !== sha256;
      const { newest, isPublished } = await core.db.transaction((tx) =>
        decide(tx, core, { channel, content, isChanged }),
      );
      decided = { sha256, number: newest.number };
      warnOf(
        newest.sha256 === sha256
          ? undefined
          : `the file has an older CA bundle than number ${newest.number}, which hosts get`,
      );
      return isPublished ? { channel, published: newest.number } : undefined;
    },
  };
};

/** Publishes a content, unless it is the newest one or was replaced by it. Returns the newest bundle. */
const decide = async (
  tx: Executor,
  core: PublishCore,
  {
    channel,
    content,
    isChanged,
  }: { channel: CaChannel; content: CaBundleContent; isChanged: boolean },
): Promise<{ newest: CaBundleRow; isPublished: boolean }> => {
  await lockCaBundles(tx);
  const newest = await findNewestBundle(tx, channel);
  const { number = 0, sha256 } = newest ?? {};
  const reported = await readReportedNumbers(tx, channel, number);
  const isSame = sha256 === content.sha256;
  const isDue = isSame
    ? reported.above > reported.hosts / 2
    : isChanged || !(await wasPublished(tx, { channel, ...content }));
  if (newest !== undefined && !isDue) return { newest, isPublished: false };
  const published = {
    channel,
    ...content,
    number: reported.greatest + 1,
    publishedAt: new Date(core.clock.now()),
  };
  await insertCaBundle(tx, published);
  await recordAudit(tx, core, {
    actor: coreActor,
    action: "ca_bundle.publish",
    target: { type: "ca_bundle", id: channel },
    outcome: "success",
    reasonCode: isSame ? "hosts_report_higher" : null,
    details: { number: published.number, sha256: content.sha256 },
  });
  return { newest: published, isPublished: true };
};
