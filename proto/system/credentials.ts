/**
 * How the end of a credential is known. `chain`: by its certificates, and it ends with the first. `bundle`: by its certificates, and it ends
 * with the last. `token`: the token states it. `role`: PostgreSQL has it. `issuer`: only who issued it knows. `none`: it has no end.
 */
export const endings = ["chain", "bundle", "token", "role", "issuer", "none"] as const;

/** How the end of a credential is known. */
export type Ending = (typeof endings)[number];

/** A certificate, key, token or password of the deployment. */
export interface Credential {
  what: string;
  /** Who has it; absent: core, which reports its end. */
  of?: "core" | "web" | "core and web" | "export" | "edge";
  /** The variables that hold it, or name its files. */
  variables: readonly string[];
  ending: Ending;
  /** What changes it, and where in docs/ that stands. */
  change: string;
  docs: string;
  /** What a host needs that was away meanwhile, a command between backticks; absent: nothing. */
  away?: string;
}

/** Has a host take the roots of a file that was away while they changed. */
export const reenrollCommand = "svc-collector enroll --reenroll --ca-bundle FILE";

const bundleOfHosts = {
  ending: "bundle",
  change: "a new bundle, twice",
  docs: "rotate.md#roots-that-hosts-trust",
  away: `\`${reenrollCommand}\``,
} as const;

/** Every credential that a deployment can have, by the name that metrics and reports give it. */
export const credentials = {
  ingest_server: {
    what: "server certificate and intermediates of ingest",
    variables: ["SVC_INGEST_SERVER_CERT_FILE", "SVC_INGEST_SERVER_KEY_FILE"],
    ending: "chain",
    change: "new files",
    docs: "rotate.md#server-certificate-of-ingest",
  },
  ingest_ca_bundle: {
    what: "roots of ingest on hosts",
    variables: ["SVC_INGEST_CA_BUNDLE_FILE"],
    ...bundleOfHosts,
  },
  management_ca_bundle: {
    what: "roots of management on hosts",
    variables: ["SVC_MANAGEMENT_CA_BUNDLE_FILE"],
    ...bundleOfHosts,
  },
  edge_server: {
    what: "server certificate of the TLS edge",
    of: "edge",
    variables: [],
    ending: "issuer",
    change: "new files of the edge",
    docs: "deploy.md#the-edge",
  },
  enrollment_ca: {
    what: "enrollment CA",
    variables: ["SVC_ENROLLMENT_CA_CERT_FILE", "SVC_ENROLLMENT_CA_KEY_FILE"],
    ending: "bundle",
    change: "both CAs, then the key",
    docs: "rotate.md#enrollment-ca",
    away: "`svc-collector enroll --reenroll`, once its certificate has ended",
  },
  ingest_client_ca: {
    what: "authorities of hosts' certificates at ingest",
    variables: ["SVC_INGEST_CLIENT_CA_FILE"],
    ending: "bundle",
    change: "with the enrollment CA",
    docs: "rotate.md#enrollment-ca",
  },
  signer: {
    what: "credentials of an external signer",
    variables: ["SVC_ENROLLMENT_SIGNER_COMMAND"],
    ending: "issuer",
    change: "at the signer",
    docs: "enroll.md#signers",
  },
  database_password: {
    what: "password of core's database role",
    variables: ["SVC_DATABASE_URL", "SVC_DATABASE_SESSION_URL", "SVC_DATABASE_PASSWORD_COMMAND"],
    ending: "role",
    change: "in PostgreSQL and its file",
    docs: "database.md#passwords",
  },
  database_client: {
    what: "client certificate for the database",
    variables: ["SVC_DATABASE_URL", "SVC_DATABASE_SESSION_URL"],
    ending: "chain",
    change: "new files",
    docs: "database.md#tls",
  },
  database_ca: {
    what: "authorities of the database's certificate",
    variables: ["SVC_DATABASE_URL", "SVC_DATABASE_SESSION_URL"],
    ending: "bundle",
    change: "both, then the server's certificate",
    docs: "database.md#tls",
  },
  web_database: {
    what: "password and TLS files of web's database role",
    of: "web",
    variables: ["SVC_DATABASE_URL", "SVC_DATABASE_PASSWORD_COMMAND"],
    ending: "issuer",
    change: "in PostgreSQL and its file",
    docs: "database.md#passwords",
  },
  chat_database: {
    what: "password of chat's database role",
    variables: ["SVC_CHAT_DATABASE_URL"],
    ending: "issuer",
    change: "in PostgreSQL and its file",
    docs: "database.md#passwords",
  },
  auth_token_secret: {
    what: "secret of bridge tokens",
    of: "core and web",
    variables: ["SVC_AUTH_TOKEN_SECRET", "SVC_AUTH_TOKEN_SECRET_PREVIOUS"],
    ending: "none",
    change: "three steps",
    docs: "rotate.md#secrets-of-core-and-web",
  },
  session_secret: {
    what: "secret of web's sessions",
    of: "web",
    variables: ["WEBAUTH_SECRET", "WEBAUTH_SECRET_PREVIOUS"],
    ending: "none",
    change: "three steps",
    docs: "rotate.md#secrets-of-core-and-web",
  },
  identity_provider: {
    what: "client secret at the identity provider",
    of: "web",
    variables: ["IDP_CLIENT_SECRET"],
    ending: "issuer",
    change: "at the provider, then its file",
    docs: "sign-in.md#register-web-with-a-provider",
  },
  directory_key: {
    what: "key of the directory's service account",
    variables: ["SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE"],
    ending: "issuer",
    change: "a new key file",
    docs: "directory.md#google-workspace",
  },
  scim_token: {
    what: "token of SCIM",
    variables: ["SVC_DIRECTORY_SCIM_TOKEN"],
    ending: "none",
    change: "two lines, then one",
    docs: "scim.md#the-token",
  },
  ops_token: {
    what: "token of the ops endpoints",
    variables: ["SVC_OPS_BEARER_TOKEN"],
    ending: "none",
    change: "a new value in its file",
    docs: "operate.md#ops-endpoints",
  },
  license: {
    what: "license",
    variables: ["SVC_LICENSE"],
    ending: "token",
    change: "a new license in its file",
    docs: "operate.md#ops-endpoints",
  },
  statement_key: {
    what: "key of the log of statements",
    variables: ["SVC_COMPLETENESS_KEY_FILE"],
    ending: "none",
    change: "a new key with a new origin",
    docs: "completeness-proof.md#sign-the-log",
  },
  receipt_key: {
    what: "key of chat's receipts",
    variables: ["SVC_CHAT_RECEIPT_SIGNING_KEY_PATH"],
    ending: "none",
    change: "a new key with a new id",
    docs: "rotate.md#receipts-of-chat",
  },
  inference_key: {
    what: "key of the model's provider",
    variables: ["SVC_INFERENCE_API_KEY"],
    ending: "issuer",
    change: "at the provider, then its file",
    docs: "chat.md#providers",
  },
  watch_receivers: {
    what: "secrets of watches' receivers",
    variables: ["SVC_WATCH_RECEIVERS"],
    ending: "none",
    change: "two secrets, then one",
    docs: "watches.md#webhook",
  },
  store_key: {
    what: "key of the bucket of telemetry",
    variables: ["SVC_INGEST_STORE_CREDENTIALS"],
    ending: "issuer",
    change: "at the store, then its file",
    docs: "ingest-stores.md#keys",
  },
  traces_headers: {
    what: "token of the receiver of traces",
    variables: ["SVC_TRACES_HEADERS"],
    ending: "issuer",
    change: "at the receiver, then its file",
    docs: "traces.md",
  },
  export_credentials: {
    what: "token, certificate and authorities of an export",
    of: "export",
    variables: [
      "SVC_EXPORT_HEADERS",
      "SVC_EXPORT_CLIENT_CERT_FILE",
      "SVC_EXPORT_CLIENT_KEY_FILE",
      "SVC_EXPORT_CA_FILE",
    ],
    ending: "issuer",
    change: "new files",
    docs: "export.md#run-it",
  },
} satisfies Readonly<Record<string, Credential>>;

/** The name of a credential. */
export type CredentialName = keyof typeof credentials;

/** Returns where the end of a credential is seen 30 days before, or why it is not. */
export const seenBy = (name: string, { ending }: Credential): string => {
  switch (ending) {
    case "chain":
    case "bundle":
    case "token":
      return `core_certificate_expiry_timestamp_seconds{certificate="${name}"}`;
    case "role":
      return "/system";
    case "issuer":
      return "only by its issuer";
    case "none":
      return "no end";
  }
};
