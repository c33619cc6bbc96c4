/*
 * The authorities that verify the servers of a channel: those of `ca_file`, and the bundle of core, which is stored in `ca/<channel>.json` of
 * the identity directory. Invariants:
 * - A server is verified by the authorities of the bundle alone and, only if these do not accept it, by others alone, since OpenSSL may take
 *   a root for another one of its name. So no bundle cuts a host off.
 * - The others are those of the bundles before and of `ca_file`, until the bundle is settled: the servers of every channel that has a bundle
 *   were verified by it alone.
 * - A `ca_file` that was changed since the bundle was taken counts until the next bundle.
 * - The number of the bundle only rises. A host without one takes any number.
 */
import { createHash, X509Certificate } from "node:crypto";
import { join } from "node:path";
import * as v from "valibot";
import { errorCode } from "#kit/describe-error.ts";
import type { CollectorConfig } from "#proto/collector-config/parse.ts";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import { decodePemBundle } from "#proto/pem.ts";
import { Sha256Hex, WholeNumber } from "#proto/values.ts";
import { readTrustedText, systemFiles, UnsafeFileError } from "../files/private-files.ts";
import { identityDirectoryOf } from "./identity-directory.ts";

const Saved = v.object({
  /** Null for authorities that `enroll` was given, and after `trust reset`. */
  number: v.nullable(WholeNumber(1)),
  /** The SHA-256 of `pem`. */
  sha256: Sha256Hex,
  pem: v.string(),
  settled: v.boolean(),
  /** The authorities of the bundles before, which count until this one is settled. */
  before: v.string(),
  /** The SHA-256 of the authorities in `ca_file` when the bundle was taken. */
  ca_file_sha256: Sha256Hex,
});

const SavedText = v.pipe(v.string(), v.parseJson(), Saved);

/** A bundle as the identity directory has it. */
export type StoredBundle = v.InferOutput<typeof Saved>;

/** The authorities that verify the servers of one channel. */
export interface ServerTrust {
  /** PEM of the authorities of `ca_file`. */
  readonly caFile: string;
  /** Undefined if there is none that counts. */
  readonly bundle?: StoredBundle;
  /** Why a bundle on disk does not count. */
  readonly fault?: string;
}

/** The host does not take a bundle. The message follows the words "the bundle". */
export class BundleRefusedError extends Error {
  override readonly name = "BundleRefusedError";
}

/** Returns the SHA-256 of a PEM text. */
export const pemDigest = (pem: string) => createHash("sha256").update(pem).digest("hex");

const hasFileChanged = ({ caFile, bundle }: ServerTrust) =>
  bundle?.ca_file_sha256 !== pemDigest(caFile);

/** Returns the PEM texts that verify a server of the channel, in the order in which they are tried. */
export const authoritiesOf = (trust: ServerTrust): string[] => {
  const { caFile, bundle } = trust;
  if (bundle === undefined) return [caFile];
  const { pem, settled, before } = bundle;
  const others = [
    ...(settled ? [] : [before]),
    ...(settled && !hasFileChanged(trust) ? [] : [caFile]),
  ];
  return [pem, ...others.filter((text) => text !== "")];
};

/** Returns the certificates of a bundle. Throws `BundleRefusedError` if one cannot be read. */
export const parseAuthorities = (pem: string): X509Certificate[] => {
  try {
    const blocks = decodePemBundle(pem, "CERTIFICATE");
    if (blocks !== undefined) return blocks.map((der) => new X509Certificate(der));
  } catch {
    // As a block that is no base64.
  }
  throw new BundleRefusedError("has a certificate that cannot be read");
};

/** Returns the identity directory whose bundles count; undefined if the config takes none, or names files that are laid out by hand. */
export const bundleDirectoryOf = (
  config: Pick<CollectorConfig, "forwarder" | "management">,
): string | undefined => (config.management.caPinned ? undefined : identityDirectoryOf(config));

/** Returns the folder of the bundles in an identity directory. */
export const bundleFolder = (directory: string): string => join(directory, "ca");

/** Returns the path of a channel's bundle in an identity directory. */
export const bundleFile = (directory: string, channel: CaChannel): string =>
  join(bundleFolder(directory), `${channel}.json`);

/** Reads what an identity directory has of a channel. A file that is damaged, or that others could have written, is a fault. Never throws. */
export const readStoredBundle = async (
  directory: string,
  channel: CaChannel,
  files = systemFiles,
): Promise<Pick<ServerTrust, "bundle" | "fault">> => {
  try {
    const owners = [0, (await files.lstat(directory)).uid];
    const text = await readTrustedText(bundleFile(directory, channel), files, owners);
    const bundle = v.parse(SavedText, text);
    parseAuthorities(bundle.before);
    return pemDigest(bundle.pem) === bundle.sha256 ? { bundle } : { fault: "is damaged" };
  } catch (error) {
    if (errorCode(error) === "ENOENT") return {};
    if (error instanceof UnsafeFileError) return { fault: error.message };
    const code = errorCode(error);
    return { fault: code === undefined ? "is damaged" : `cannot be read (${code})` };
  }
};

const describedMax = 20;

/** Returns what the collector's outputs say of both channels; null for one that the authorities of the system verify. */
export const describeTrust = (
  trust: Partial<Record<CaChannel, ServerTrust>>,
  refusalOf: (channel: CaChannel) => string | undefined = () => undefined,
) => ({
  ingest: trust.ingest ? describeChannel(trust.ingest, refusalOf("ingest")) : null,
  management: trust.management ? describeChannel(trust.management, refusalOf("management")) : null,
});

/** Describes the bundle of a channel, and the authorities that count, those that end first at the head. */
const describeChannel = (trust: ServerTrust, refusal: string | undefined) => {
  const { bundle, fault } = trust;
  const texts = authoritiesOf(trust);
  const authorities = new Map(
    parseAuthorities(texts.join("\n")).map(({ fingerprint256, subject, validToDate }) => [
      fingerprint256,
      { name: subject.replaceAll("\n", ", "), not_after: validToDate.toISOString() },
    ]),
  );
  return {
    bundle: bundle?.number ?? null,
    settled: bundle ? texts.length === 1 : null,
    fault: fault ?? refusal ?? null,
    authorities: [...authorities.values()]
      .sort((one, other) => (one.not_after < other.not_after ? -1 : 1))
      .slice(0, describedMax),
  };
};
