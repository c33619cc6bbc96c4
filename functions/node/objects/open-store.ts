import type { StoreKeys } from "#functions/config/store-config.ts";
import { readBucketRules } from "#functions/objects/bucket-rules.ts";
import { probeStore } from "#functions/objects/claim-store.ts";
import { type ObjectStore, ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import {
  createS3Caller,
  type S3CredentialSource,
  type S3Needs,
} from "#functions/objects/s3-calls.ts";
import { createWebIdentityKeys } from "#functions/objects/s3-credentials.ts";
import { createS3Store } from "#functions/objects/s3-store.ts";
import { readStoreLocation, type StoreLocation } from "#functions/objects/store-location.ts";
import { fileFault } from "#kit/describe-error.ts";
import { ConfigError, variableFault } from "#kit/env.ts";
import { readCertificates, readTrustedFile } from "../config-files.ts";
import { openDirectoryStore } from "./directory-store.ts";
import { createSendHttp, hashParts } from "./send-http.ts";

type BucketLocation = Extract<StoreLocation, { kind: "s3" }>;

/** What opening a store uses. */
export interface OpenStoreNeeds extends Pick<S3Needs, "clock" | "entropy" | "callMs"> {
  /** None by default. */
  keys?: StoreKeys | undefined;
}

/** Opens the object store at a location of `SVC_INGEST_STORE`. Throws `ObjectStoreUnavailable`. */
export const openObjectStore = async (
  text: string,
  needs: OpenStoreNeeds,
): Promise<ObjectStore> => {
  const location = readStoreLocation(text);
  if (location === null)
    throw new ObjectStoreUnavailable(`core does not know the kind of the store ${text}`);
  return location.kind === "directory"
    ? openDirectoryStore(location.path, needs)
    : createS3Store(location.place, s3NeedsOf(location, needs));
};

const s3NeedsOf = (
  { place, caFile }: BucketLocation,
  { keys = { key: null, webIdentity: null }, ...needs }: OpenStoreNeeds,
): S3Needs => {
  try {
    if (caFile !== null) readCertificates(caFile);
  } catch (cause) {
    throw new ObjectStoreUnavailable(`ca_file ${fileFault(cause)}`, { cause });
  }
  const send = createSendHttp(caFile);
  const credentials = keySourceOf(keys, place.region, { send, clock: needs.clock });
  return { ...needs, send, credentials, hash: hashParts };
};

/** A check does not wait longer for a store that is unavailable. */
const checkMs = 10_000;

/**
 * Tries all that core does with a store, and reads what a bucket does to objects that core keeps for `retentionDays` (0: for ever). Returns
 * warnings. Throws `ConfigError` with each right that is missing, and each rule that would lose telemetry.
 */
export const checkStore = async (
  text: string,
  { retentionDays, ...given }: OpenStoreNeeds & { retentionDays: number },
): Promise<readonly string[]> => {
  const needs = { ...given, callMs: checkMs };
  const store = await openObjectStore(text, needs).catch((error) => {
    throw variableFault("SVC_INGEST_STORE", error.message);
  });
  const faults = await probeStore(store, needs.entropy);
  const location = readStoreLocation(text);
  const rules =
    location?.kind === "s3" && faults.length === 0
      ? await readBucketRules(createS3Caller(location.place, s3NeedsOf(location, needs)), {
          prefix: location.place.prefix,
          keptDays: retentionDays || Infinity,
        })
      : { faults: [], warnings: [] };
  faults.push(...rules.faults);
  if (faults.length > 0)
    throw new ConfigError(faults.map((message) => ({ variable: "SVC_INGEST_STORE", message })));
  return [...new Set([...rules.warnings, ...store.hazards()])];
};

const keySourceOf = (
  { key, webIdentity }: StoreKeys,
  region: string,
  needs: Pick<S3Needs, "send" | "clock">,
): S3CredentialSource => {
  if (key === null && webIdentity !== null) {
    const { roleArn, tokenFile, url } = webIdentity;
    const readToken = () => readTrustedFile(tokenFile).toString("utf8").trim();
    const service = url ?? `https://sts.${region}.amazonaws.com/`;
    return createWebIdentityKeys({ roleArn, url: service, readToken }, needs);
  }
  return {
    async current() {
      if (key === null)
        throw new ObjectStoreUnavailable("core has no key: set SVC_INGEST_STORE_CREDENTIALS");
      return key.reveal();
    },
    reject: () => undefined,
  };
};
