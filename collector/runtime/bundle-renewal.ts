/*
 * Renews the CA bundles of a host in a core session, by the rules of channel-trust.ts. Invariants:
 * - The bundle of a channel comes from a server that the host's own authorities of that channel have verified.
 * - A bundle that was refused, or could not be stored, is fetched again after an hour, or when core has another.
 * - While a bundle is not settled, each channel that has one is fetched once more: its server is verified then by the bundle alone, if it can be.
 * - A bundle is compared with what the identity directory has, and written, under the directory's lock.
 */
import { type Clock, hourMs } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import { type CaChannel, caChannels } from "#proto/management/ca-bundle.ts";
import type { CaBundle } from "#proto/management/enroll.ts";
import type { CaBundleNumbers } from "#proto/management/heartbeat.ts";
import type { LoadedConfig, UsableConfig } from "../config/load-config.ts";
import type { Authorities } from "../connect/open-tls.ts";
import { authoritiesOf, BundleRefusedError, readStoredBundle } from "../identity/channel-trust.ts";
import { type IdentityDirectory, IdentityLockedError } from "../identity/identity-directory.ts";
import { ManagementError } from "../management/management-error.ts";
import type { SourceWarning } from "../sources/source.ts";

/** The last fetches of a process. One is not repeated before `until`, on the monotonic clock, while core and host have the same numbers. */
export type BundleTries = Map<
  CaChannel,
  { number: number; held: number; until: number; refusal: string | undefined }
>;

const retryMs = hourMs;

/** Returns why bundles of core do not count, or are not taken, as warnings. */
export const trustWarnings = (
  trust: LoadedConfig["trust"],
  tries: BundleTries = new Map(),
): SourceWarning[] =>
  caChannels.flatMap((channel) => {
    const { fault } = trust[channel] ?? {};
    const refusal = tries.get(channel)?.refusal;
    const warning = { level: "warning", path: `CA bundle of ${channel}`, count: 1 } as const;
    return [
      ...(fault ? [{ ...warning, code: "ca_bundle_ignored", message: `its file ${fault}` }] : []),
      ...(refusal ? [{ ...warning, code: "ca_bundle_refused", message: refusal }] : []),
    ];
  });

/** The authorities of a core session, and their renewal. */
interface BundleRenewal {
  /** Returns what verifies a channel's servers; undefined if the authorities of the system do. */
  authorities(channel: CaChannel): Authorities | undefined;
  /** Fetches in the background what core has published since, and what is to be verified by its bundle alone. */
  follow(numbers: CaBundleNumbers, fetch: (channel: CaChannel) => Promise<CaBundle | null>): void;
  /** Resolves when nothing is being fetched or written any more. */
  idle(): Promise<void>;
}

/** Creates the renewal of a core session. It does nothing without a `directory`. */
export const createBundleRenewal = (options: {
  directory: IdentityDirectory | undefined;
  trust: UsableConfig["trust"];
  tries: BundleTries;
  /** Whether the connections of ingest are those of management too. */
  isShared: boolean;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  signal: AbortSignal;
}): BundleRenewal => {
  const { directory, tries, isShared, clock, log, signal } = options;
  const trust = { ...options.trust };
  const isUnsettled = (channel: CaChannel) => trust[channel]?.bundle?.settled === false;
  const unverified = new Set(caChannels.filter(isUnsettled));
  let work: Promise<void> = Promise.resolve();
  let isFollowing = false;

  const heldNumber = (channel: CaChannel) => trust[channel]?.bundle?.number ?? 0;

  const isDue = (channel: CaChannel, number: number) => {
    const held = heldNumber(channel);
    const isWanted = trust[channel] && (number > held || unverified.has(channel));
    const tried = tries.get(channel);
    const isRepeated = tried?.number === number && tried.held === held;
    return isWanted && !(isRepeated && clock.monotonic() < tried.until);
  };

  const tried = (channel: CaChannel, number: number, refusal?: string) => {
    const until = clock.monotonic() + retryMs;
    tries.set(channel, { number, held: heldNumber(channel), until, refusal });
  };

  const attempt = async (channel: CaChannel, number: number, act: () => Promise<void>) => {
    try {
      await act();
    } catch (error) {
      if (signal.aborted || error instanceof IdentityLockedError) return;
      const refusal = refusalOf(error);
      if (refusal) tried(channel, number, `number ${number} ${refusal}`);
      log.warn({ err: error, channel, number }, "the CA bundle of core cannot be taken");
    }
  };

  const store = async (
    { path }: IdentityDirectory,
    [channel, number, published]: readonly [CaChannel, number, CaBundle],
  ) => {
    const { takeBundle, writeStoredBundle } = await import("../identity/take-bundle.ts");
    const { caFile = "" } = trust[channel] ?? {};
    const stored = await readStoredBundle(path, channel);
    const bundle = takeBundle({ caFile, ...stored }, published, clock.now());
    if (bundle === undefined) return tried(channel, number);
    await writeStoredBundle(path, channel, bundle, options);
    tries.delete(channel);
    log.info({ channel, number: bundle.number }, "took the CA bundle of core");
  };

  const renew = async (
    into: IdentityDirectory,
    ...[numbers, fetch]: Parameters<BundleRenewal["follow"]>
  ) => {
    const fetched: [CaChannel, number, CaBundle][] = [];
    for (const channel of caChannels) {
      const number = numbers[channel];
      if (!isDue(channel, number)) continue;
      await attempt(channel, number, async () => {
        const bundle = await fetch(channel);
        if (bundle === null) tried(channel, number);
        else fetched.push([channel, number, bundle]);
      });
    }
    // After both fetches: the core session ends with the first change.
    for (const each of fetched) {
      const [channel, number] = each;
      await attempt(channel, number, () => into.locked(() => store(into, each)));
    }
  };

  const settle = async ({ path, locked }: IdentityDirectory) => {
    if (unverified.size > 0 || !caChannels.some(isUnsettled)) return;
    const { writeStoredBundle } = await import("../identity/take-bundle.ts");
    await locked(async () => {
      for (const channel of caChannels.filter(isUnsettled)) {
        const { caFile = "", bundle } = trust[channel] ?? {};
        const { bundle: stored } = await readStoredBundle(path, channel);
        if (stored === undefined || stored.sha256 !== bundle?.sha256) continue;
        const settled = { ...stored, settled: true, before: "" };
        await writeStoredBundle(path, channel, settled, options);
        trust[channel] = { caFile, bundle: settled };
        log.info({ channel, number: stored.number }, "the CA bundle is settled");
      }
    });
  };

  /** Runs one change of the directory after the other. */
  const inBackground = (change: (directory: IdentityDirectory) => Promise<void>) => {
    work = work.then(async () => {
      if (directory === undefined || signal.aborted) return;
      await change(directory).catch((error: unknown) => {
        if (error instanceof IdentityLockedError) return;
        log.error({ err: error }, "the CA bundles cannot be stored");
      });
    });
    return work;
  };

  return {
    authorities: (channel) => {
      const first = trust[channel];
      if (first === undefined) return undefined;
      return {
        inOrder: () => authoritiesOf(trust[channel] ?? first),
        onVerified: (position) => {
          if (position > 0) return;
          for (const verified of isShared ? caChannels : [channel]) unverified.delete(verified);
          void inBackground(settle);
        },
      };
    },
    follow: (numbers, fetch) => {
      if (isFollowing) return;
      isFollowing = true;
      void inBackground((into) => renew(into, numbers, fetch));
      void inBackground(settle).then(() => {
        isFollowing = false;
      });
    },
    idle: () => work,
  };
};

/** Returns why a bundle is not taken for now; undefined if the next answer of core may try again. */
const refusalOf = (error: unknown): string | undefined => {
  if (error instanceof BundleRefusedError) return error.message;
  if (error instanceof ManagementError) {
    const { code, action, status, message } = error.failure;
    if (code === "answer_invalid") return "is not one that a host takes";
    return status !== undefined && action !== "retry" ? `is refused: ${message}` : undefined;
  }
  return `cannot be stored (${errorCode(error) ?? "no code"})`;
};
