import { join } from "node:path";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { findPorts } from "#scripts/ports.ts";
import { openEmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { libpqKeywords } from "../ingest/libpq-keywords.ts";
import { writeFiles } from "../support/collector-files.ts";
import { cpuSecondsOf, memoryOf, startProgram } from "../support/processes.ts";
import type { MeasuredServer } from "./cpu.ts";

/** step-ca with a provisioner of one-time tokens. */
export interface StepCa extends MeasuredServer, AsyncDisposable {
  port: number;
  /** Authority of its own certificate, in PEM. */
  ca: string;
  /** Creates a one-time token for a URI. */
  mint(uri: string): Promise<string>;
}

const provisioner = "bench";

/** Starts step-ca on its usual embedded database, which syncs each transaction, or on a durable PostgreSQL. */
export const startStepCa = async (
  program: string,
  store: "badger" | "postgres",
): Promise<StepCa> => {
  const resources = new AsyncDisposableStack();
  const { path: folder } = resources.use(await openTemporaryFolder("step-ca"));
  const database = store === "postgres" ? resources.use(await openEmbeddedDatabase()) : undefined;
  const root = await createTestCa({ name: "Bench root" });
  const issuing = await createTestCa({ name: "Bench issuing", issuer: root, serialNumber: "02" });
  const [port = 0] = await findPorts(1);
  const keys = await generateKeyPair("ES256");
  const kid = "bench-key";
  const key = { ...(await exportJWK(keys.publicKey)), kid, use: "sig", alg: "ES256" };
  const config = {
    root: join(folder, "root.pem"),
    crt: join(folder, "issuing.pem"),
    key: join(folder, "issuing-key.pem"),
    address: `127.0.0.1:${port}`,
    dnsNames: ["localhost"],
    db:
      database === undefined
        ? { type: "badgerv2", dataSource: join(folder, "db") }
        : { type: "postgresql", dataSource: libpqKeywords(database.url), database: "step_ca" },
    authority: { provisioners: [{ type: "JWK", name: provisioner, key }] },
  };
  const files = {
    "root.pem": root.pem,
    "issuing.pem": issuing.pem,
    "issuing-key.pem": issuing.key.pem,
    "ca.json": JSON.stringify(config),
  };
  await writeFiles(folder, files);
  const command = [program, join(folder, "ca.json")] as const;
  const running = resources.use(await startProgram({ command, ready: /Serving HTTPS on/ }));
  return {
    port,
    ca: root.pem,
    cpu: () => ({
      step_ca: cpuSecondsOf(running.pid),
      ...(database === undefined ? {} : { postgres: cpuSecondsOf(database.pid) }),
    }),
    peakMb: () => memoryOf(running.pid).peakMb,
    mint: (uri) =>
      new SignJWT({ sans: [uri] })
        .setProtectedHeader({ alg: "ES256", kid, typ: "JWT" })
        .setIssuer(provisioner)
        .setAudience("https://localhost/1.0/sign")
        .setSubject(uri)
        .setJti(crypto.randomUUID())
        .setIssuedAt()
        .setNotBefore("0s")
        .setExpirationTime("10m")
        .sign(keys.privateKey),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
};
