/* What a host does with a CA bundle, by the invariants of channel-trust.ts. A collector loads it when there is one. */
import { join } from "node:path";
import { type CaChannel, caChannels } from "#proto/management/ca-bundle.ts";
import { type CaBundle, caBundleBytesMax } from "#proto/management/enroll.ts";
import {
  type FileAccess,
  fsyncDirectory,
  makePrivateDirectory,
  systemFiles,
  writeDurably,
} from "../files/private-files.ts";
import {
  BundleRefusedError,
  bundleFile,
  bundleFolder,
  parseAuthorities,
  pemDigest,
  readStoredBundle,
  type ServerTrust,
  type StoredBundle,
} from "./channel-trust.ts";

/** The most numbers by which a bundle may be above the one before. */
const numbersMax = 1_000;
/** The most bytes of authorities that count besides a bundle: of more, those are kept that count for the longest. */
const beforeBytesMax = 4 * caBundleBytesMax;

/**
 * Returns what the host stores of a bundle that core has published, or undefined if its number is not above that of the host's. Throws
 * `BundleRefusedError`. The caller has received it from a server that the authorities of the channel have verified.
 */
export const takeBundle = (
  trust: ServerTrust,
  { number, sha256, pem }: Pick<CaBundle, "number" | "sha256" | "pem">,
  nowMs: number,
): StoredBundle | undefined => {
  const held = trust.bundle?.number ?? null;
  if (held !== null && number <= held) return undefined;
  if (held !== null && number - held > numbersMax)
    throw new BundleRefusedError(
      `has a number more than ${numbersMax} above ${held}: svc-collector trust reset takes any`,
    );
  if (pemDigest(pem) !== sha256) throw new BundleRefusedError("does not have its hash");
  if (Buffer.byteLength(pem) > caBundleBytesMax)
    throw new BundleRefusedError(`is larger than ${caBundleBytesMax} bytes`);
  return { ...replaceAuthorities(trust, checkAuthorities(pem, nowMs)), number };
};

/** Returns what the host stores of authorities that `enroll` was given: any bundle of core follows them. */
export const replaceAuthorities = (trust: ServerTrust, pem: string): StoredBundle => ({
  number: null,
  sha256: pemDigest(pem),
  pem,
  settled: false,
  before: authoritiesBefore(trust),
  ca_file_sha256: pemDigest(trust.caFile),
});

const authoritiesBefore = ({ bundle }: ServerTrust): string => {
  if (bundle === undefined || bundle.settled) return bundle?.pem ?? "";
  const blocks = parseAuthorities(`${bundle.before}\n${bundle.pem}`).map(String);
  const before = [...new Set(blocks)].join("");
  return before.length > beforeBytesMax ? bundle.before : before;
};

/** Returns the certificates of a bundle in PEM, without what stands between them. */
const checkAuthorities = (pem: string, nowMs: number): string => {
  const certificates = parseAuthorities(pem);
  if (certificates.length === 0) throw new BundleRefusedError("is empty");
  if (certificates.some(({ ca }) => !ca))
    throw new BundleRefusedError("has a certificate that is not an authority's");
  if (certificates.every(({ validToDate }) => validToDate.getTime() <= nowMs))
    throw new BundleRefusedError("has only authorities that have ended");
  return certificates.map(String).join("");
};

/** Stores a bundle durably. Call it under the lock of the identity directory. */
export const writeStoredBundle = async (
  directory: string,
  channel: CaChannel,
  bundle: StoredBundle,
  disk: FileAccess,
): Promise<void> => {
  const { files = systemFiles } = disk;
  const folder = bundleFolder(directory);
  await makePrivateDirectory(folder, files);
  await fsyncDirectory(directory, files);
  // Temporary files of a process that was killed.
  for (const name of await files.readdir(folder))
    if (name.startsWith(".")) await files.rm(join(folder, name), { force: true });
  await writeDurably(bundleFile(directory, channel), `${JSON.stringify(bundle)}\n`, disk);
};

/**
 * Forgets the numbers of both channels' bundles, and what is damaged. The authorities stay, as `ca_file` may be older than core's certificate.
 * Call it under the lock of the identity directory.
 */
export const forgetNumbers = async (directory: string, disk: FileAccess): Promise<void> => {
  for (const channel of caChannels) {
    const { bundle, fault } = await readStoredBundle(directory, channel);
    if (fault) await systemFiles.rm(bundleFile(directory, channel), { recursive: true });
    if (!bundle) continue;
    const numberless = { ...bundle, number: null, settled: false };
    await writeStoredBundle(directory, channel, numberless, disk);
  }
};

/** Forgets the bundles of both channels. Call it under the lock of the identity directory. */
export const removeStoredBundles = async (directory: string): Promise<void> => {
  await systemFiles.rm(bundleFolder(directory), { recursive: true, force: true });
  await fsyncDirectory(directory);
};
