import * as v from "valibot";
import { readStoreLocation } from "#functions/objects/store-location.ts";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import { type ConfigFault, type Environment, requireWith, type ValuesOf } from "#kit/env.ts";
import { Secret } from "#kit/secret.ts";
import { ConfidentialUrlVariable, fileForm, TextVariable } from "#kit/variables.ts";

const readKey = (text: string) => {
  const [id, secret, token] = ["access_key_id", "secret_access_key", "session_token"].map(
    (name) => new RegExp(`\\baws_${name}\\s*=\\s*(\\S+)`).exec(text)?.[1],
  );
  if (id === undefined || secret === undefined) return null;
  return { accessKeyId: id, secretAccessKey: secret, ...(token && { sessionToken: token }) };
};

/** A key in the form of the file `~/.aws/credentials`. */
const keyVariable = v.pipe(
  TextVariable,
  fileForm,
  v.transform(readKey),
  v.check(
    (key) => key !== null,
    "must be aws_access_key_id=… and aws_secret_access_key=…, as in ~/.aws/credentials",
  ),
  v.transform((key) => new Secret(key as NonNullable<typeof key>)),
);

/** One schema per variable of the keys of buckets. */
export const storeKeyVariables = {
  /**
   * key of the bucket, in the form of `~/.aws/credentials`: `aws_access_key_id=…` and
   * `aws_secret_access_key=…`
   */
  SVC_INGEST_STORE_CREDENTIALS: v.optional(keyVariable),
  /** without a key: the role that core assumes by the token of the next variable */
  AWS_ROLE_ARN: v.optional(TextVariable),
  /** file of the workload's token, as Kubernetes keeps it new */
  AWS_WEB_IDENTITY_TOKEN_FILE: v.optional(TextVariable),
  /** token service of a bucket that is not at AWS */
  AWS_ENDPOINT_URL_STS: v.optional(ConfidentialUrlVariable),
};

/** One schema per variable of the store. */
export const storeVariables = {
  /**
   * where the bytes of envelopes are: `postgres`, `directory:/path`, or
   * `s3://bucket/prefix?endpoint=https://…` ([ingest-stores.md](ingest-stores.md))
   */
  SVC_INGEST_STORE: v.optional(
    v.pipe(
      TextVariable,
      v.check(
        (text) => text === "postgres" || readStoreLocation(text) !== null,
        "must be postgres, directory:/path, or s3://bucket/prefix?endpoint=URL&region=NAME&style=path|virtual&ca_file=/PATH",
      ),
    ),
    "postgres",
  ),
  ...storeKeyVariables,
};

type StoreValues = ValuesOf<typeof storeVariables>;

/** Returns where the keys of buckets come from. */
export const storeKeysOf = (values: ValuesOf<typeof storeKeyVariables>) => {
  const { AWS_ROLE_ARN: roleArn, AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile } = values;
  return {
    key: values.SVC_INGEST_STORE_CREDENTIALS ?? null,
    /** Null: none. */
    webIdentity:
      roleArn && tokenFile
        ? { roleArn, tokenFile, url: values.AWS_ENDPOINT_URL_STS ?? null }
        : null,
  };
};

/** Where the keys of buckets come from. */
export type StoreKeys = ReturnType<typeof storeKeysOf>;

/** Returns the store of parsed variables. */
export const storeConfigOf = ({ SVC_INGEST_STORE: location, ...values }: StoreValues) =>
  location === "postgres"
    ? { kind: "postgres" as const }
    : { kind: "objects" as const, location, keys: storeKeysOf(values) };

/** Adds the faults between the variables of the store. */
export const storeFaults = (env: Environment, faults: ConfigFault[]): void => {
  requireWith(env, faults, "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE");
  if (env.SVC_INGEST_STORE?.startsWith("s3:") && !env.AWS_ROLE_ARN)
    requireWith(env, faults, "SVC_INGEST_STORE", "SVC_INGEST_STORE_CREDENTIALS");
};

/** Returns warnings about a store that works. */
export const storeWarnings = ({ SVC_INGEST_STORE: text }: StoreValues): string[] => {
  const location = readStoreLocation(text);
  return location?.kind === "s3" && !isConfidentialUrl(location.place.bucketUrl)
    ? ["SVC_INGEST_STORE sends telemetry to another machine without TLS"]
    : [];
};
