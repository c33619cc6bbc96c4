import type { StoreKeys } from "#functions/config/store-config.ts";
import { probeStore } from "#functions/objects/claim-store.ts";
import { type ObjectStore, ObjectStoreUnavailable } from "#functions/objects/object-store.ts";
import type { S3CredentialSource, S3Needs } from "#functions/objects/s3-calls.ts";
import { createWebIdentityKeys } from "#functions/objects/s3-credentials.ts";
import { createS3Store } from "#functions/objects/s3-store.ts";
import { readStoreLocation } from "#functions/objects/store-location.ts";
import { fileFault } from "#kit/describe-error.ts";
import { ConfigError, variableFault } from "#kit/env.ts";
import { readCertificates, readTrustedFile } from "../config-files.ts";
import { openDirectoryStore } from "./directory-store.ts";
import { createSendHttp, hashParts } from "./send-http.ts";

/** What opening a store uses. */
export interface OpenStoreNeeds extends Pick<S3Needs, "clock" | "entropy" | "callMs"> {
  /** None by default. */
  keys?: StoreKeys | undefined;
}

/** Opens the object store at a location of `SVC_INGEST_STORE`. Throws `ObjectStoreUnavailable`. */
export const openObjectStore = async (
  text: string,
  { keys = { key: null, webIdentity: null }, ...needs }: OpenStoreNeeds,
): Promise<ObjectStore> => {
  const location = readStoreLocation(text);
  if (location === null)
    throw new ObjectStoreUnavailable(`core does not know the kind of the store ${text}`);
  if (location.kind === "directory") return openDirectoryStore(location.path, needs);
  const { caFile } = location;
  try {
    if (caFile !== null) readCertificates(caFile);
  } catch (cause) {
    throw new ObjectStoreUnavailable(`ca_file ${fileFault(cause)}`, { cause });
  }
  const send = createSendHttp(caFile);
  const credentials = keySourceOf(keys, location.place.region, { send, clock: needs.clock });
  return createS3Store(location.place, { ...needs, send, credentials, hash: hashParts });
};

/** A check does not wait longer for a store that is unavailable. */
const checkMs = 10_000;

/** Tries all that core does with a store. Returns warnings. Throws `ConfigError` with each right that is missing. */
export const checkStore = async (
  text: string,
  needs: OpenStoreNeeds,
): Promise<readonly string[]> => {
  const store = await openObjectStore(text, { ...needs, callMs: checkMs }).catch((error) => {
    throw variableFault("SVC_INGEST_STORE", error.message);
  });
  const faults = await probeStore(store, needs.entropy);
  if (faults.length > 0)
    throw new ConfigError(faults.map((message) => ({ variable: "SVC_INGEST_STORE", message })));
  return store.hazards();
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
