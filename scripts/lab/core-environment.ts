import { systemEntropy } from "#kit/entropy.ts";
import type { LabPki } from "./ca/pki.ts";
import { testTenantId } from "./people.ts";

/** The environment of a core on this database that syncs no directory. */
export const coreEnvironment = (databaseUrl: string) => ({
  SVC_DATABASE_URL: databaseUrl,
  SVC_TENANT_ID: testTenantId,
  SVC_AUTH_TOKEN_SECRET: systemEntropy.bytes(32).toHex(),
  SVC_DIRECTORY_DOMAIN: "example.test",
  SVC_DIRECTORY_DELEGATE_EMAIL: "root@example.test",
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/nowhere",
  SVC_SHUTDOWN_DELAY: "0s",
});

/** An issuer of workloads, whose keys nobody serves. Without an issuer core has no exchange of tokens. */
export const workloadEnvironment = {
  SVC_WORKLOAD_ISSUERS:
    "issuers: [{ issuer: http://127.0.0.1:9, audience: fleet, jwks_uri: http://127.0.0.1:9/keys, subjects: [{ pattern: a job, scopes: [read] }] }]",
};

/** Returns the variables of a core that serves and enrolls with a lab's certificates, and listens for telemetry on a port of loopback. */
export const listenerEnvironment = ({ ingest, enrollmentCa }: LabPki, ingestPort: number) => ({
  SVC_HTTP_HOST: "127.0.0.1",
  SVC_INGEST_GRPC_ADDR: `127.0.0.1:${ingestPort}`,
  SVC_INGEST_SERVER_CERT_FILE: ingest.certFile,
  SVC_INGEST_SERVER_KEY_FILE: ingest.keyFile,
  SVC_INGEST_CLIENT_CA_FILE: enrollmentCa.certFile,
  SVC_INGEST_REQUIRE_ENROLLMENT: "true",
  SVC_ENROLLMENT_CA_CERT_FILE: enrollmentCa.certFile,
  SVC_ENROLLMENT_CA_KEY_FILE: enrollmentCa.keyFile,
});

/** Returns the environment of a core on loopback with a lab's certificates. Ports are free ones unless given. */
export const labCoreEnvironment = (options: {
  databaseUrl: string;
  pki: LabPki;
  authTokenSecret?: string;
  httpPort?: number;
  ingestPort?: number;
}): Record<string, string> => ({
  // Its directory's key file does not exist: a sync fails, and core keeps the people that were seeded.
  ...coreEnvironment(options.databaseUrl),
  ...listenerEnvironment(options.pki, options.ingestPort ?? 0),
  PORT: String(options.httpPort ?? 0),
  ...(options.authTokenSecret && { SVC_AUTH_TOKEN_SECRET: options.authTokenSecret }),
});
