import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { encodePem } from "../../proto/pem.ts";
import { createTestCa, createTestKey, issueTestCertificate, type TestCa, testNames, x509 } from "../lab-ca/test-pki.ts";

const main = fileURLToPath(new URL("../../functions/main.ts", import.meta.url));

/** `svc-server` from its sources as a process of its own, with an ingest listener for `localhost` that needs no enrollment. */
export interface IngestCore {
  ca: TestCa;
  /** Starts it, also after a kill; resolves once it logs that it is ready. */
  start(): Promise<{ port: number; ingestPort: number; process: ChildProcess }>;
  /** Issues a client certificate for one URI; returns PEM. */
  client(uri: string): Promise<{ cert: string; key: string }>;
  /** Removes its files. */
  remove(): Promise<void>;
}

/** Prepares files and environment of a core on a database. With `ingestPort` it listens on the same port after each start. */
export const prepareIngestCore = async (databaseUrl: string, { ingestPort = 0 } = {}): Promise<IngestCore> => {
  const dir = await mkdtemp(join(tmpdir(), "svc-core-"));
  const [notBefore, notAfter] = [new Date(Date.now() - 3_600_000), new Date(Date.now() + 86_400_000)];
  const ca = await createTestCa({ notBefore, notAfter });
  const key = await createTestKey();
  const extensions = [
    testNames([{ type: "dns", value: "localhost" }]),
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
  ];
  const certificate = await issueTestCertificate({ ca, key, extensions, notBefore, notAfter });
  await writeFile(join(dir, "server.crt"), encodePem(certificate, "CERTIFICATE"));
  await writeFile(join(dir, "server.key"), key.pem, { mode: 0o600 });
  await writeFile(join(dir, "ca.crt"), ca.pem);
  const env = {
    PATH: process.env.PATH,
    PORT: "0",
    SVC_DATABASE_URL: databaseUrl,
    SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
    SVC_AUTH_TOKEN_SECRET: "a-test-secret-of-more-than-32-bytes",
    SVC_DIRECTORY_DOMAIN: "example.test",
    SVC_DIRECTORY_DELEGATE_EMAIL: "root@example.test",
    SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/nowhere/directory.json",
    SVC_INGEST_GRPC_ADDR: `127.0.0.1:${ingestPort}`,
    SVC_INGEST_SERVER_CERT_FILE: join(dir, "server.crt"),
    SVC_INGEST_SERVER_KEY_FILE: join(dir, "server.key"),
    SVC_INGEST_CLIENT_CA_FILE: join(dir, "ca.crt"),
  };
  return {
    ca,
    async start() {
      const child = spawn(process.execPath, [main], { env, stdio: ["ignore", "pipe", "inherit"] });
      const lines = createInterface({ input: child.stdout });
      const ready = new Promise<Record<string, number>>((resolve, reject) => {
        lines.on("line", (line) => {
          const record = JSON.parse(line) as { msg: string } & Record<string, number>;
          if (record.msg === "ready") resolve(record);
        });
        void once(child, "exit").then(() => reject(new Error("core ended before it was ready")));
      });
      const { port = 0, ingest_port: ingestPort = 0 } = await ready;
      return { port, ingestPort, process: child };
    },
    async client(uri) {
      const own = await createTestKey();
      const der = await issueTestCertificate({ ca, key: own, uri, notBefore, notAfter });
      return { cert: encodePem(der, "CERTIFICATE"), key: own.pem };
    },
    remove: () => rm(dir, { recursive: true }),
  };
};
