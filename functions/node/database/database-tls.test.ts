import { chown, copyFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connectDatabase } from "#functions/store/database/database.ts";
import { destroyClient, openCopyClient } from "#functions/store/ingest/copy-transaction.ts";
import { errorCode } from "#kit/describe-error.ts";
import { createLabPki, type LabPki } from "#scripts/lab/ca/pki.ts";
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from "#scripts/postgres/embedded-postgres.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { createDatabaseServers } from "./database-servers.ts";

const dir = newFolder();
let pki: LabPki;
let server: EmbeddedPostgres;
beforeAll(async () => {
  pki = await createLabPki({ dir: join(dir, "pki") });
  const files = { cert: join(dir, "server.crt"), key: join(dir, "server.key") };
  await copyFile(pki.ingest.certFile, files.cert);
  await copyFile(pki.ingest.keyFile, files.key);
  // The server runs as another user, which must own its key.
  if (process.getuid?.() === 0)
    for (const path of [dir, ...Object.values(files)]) await chown(path, 65534, 65534);
  server = await startEmbeddedPostgres({
    tcp: true,
    settings: { ssl: "on", ssl_cert_file: files.cert, ssl_key_file: files.key },
  });
});
afterAll(() => server?.stop("immediate"));

const isEncrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";

/** Reports whether each of the two drivers connects with TLS; or why it does not. */
const connect = async (host: string, parameters: Record<string, string>) => {
  const own = new URL(server.tcpUrl());
  const query = new URLSearchParams(parameters);
  const url = `postgres://postgres:${own.password}@${host.replaceAll("PORT", own.port)}/postgres?${query}`;
  const servers = createDatabaseServers(url);
  const { sql, close } = connectDatabase({ url, servers });
  const pool = await sql.unsafe(isEncrypted).then(([row]) => row?.ssl, errorCode);
  await close(0);
  await expect.poll(servers.count).toBe(0);
  const copy = await servers
    .locate()
    .then(openCopyClient)
    .then(
      async (client) => {
        const { rows } = await client.query(isEncrypted);
        destroyClient(client);
        return rows[0]?.ssl;
      },
      (error: Error & { code?: string }) => error.code,
    );
  return { pool, copy };
};
const encrypted = { pool: true, copy: true };

describe("TLS to the database, by both drivers", () => {
  it("is off without sslmode", async () => {
    expect(await connect("localhost:PORT", {})).toEqual({ pool: false, copy: false });
    expect(await connect("localhost:PORT", { sslmode: "disable" })).toEqual({
      pool: false,
      copy: false,
    });
  });

  it("encrypts with sslmode=require, whoever the server is", async () => {
    expect(await connect("localhost:PORT", { sslmode: "require" })).toEqual(encrypted);
  });

  it("verifies CA and host with sslmode=verify-full", async () => {
    const parameters = { sslmode: "verify-full", sslrootcert: pki.serverCaFile };
    expect(await connect("localhost:PORT", parameters)).toEqual(encrypted);
    expect(await connect("127.0.0.1:PORT", parameters)).toEqual(encrypted);
    // Another name of this machine, which the certificate does not have.
    const refused = { pool: "ERR_TLS_CERT_ALTNAME_INVALID", copy: "ERR_TLS_CERT_ALTNAME_INVALID" };
    expect(await connect("127.1:PORT", parameters)).toEqual(refused);
    expect(await connect("127.1:PORT", { ...parameters, sslmode: "verify-ca" })).toEqual(encrypted);
    // As libpq: a CA that is named is used.
    expect(await connect("127.1:PORT", { ...parameters, sslmode: "require" })).toEqual(encrypted);
  });

  it("refuses a server of another CA with verify-ca and verify-full", async () => {
    for (const sslmode of ["verify-ca", "verify-full"]) {
      const { pool, copy } = await connect("localhost:PORT", {
        sslmode,
        sslrootcert: pki.enrollmentCa.certFile,
      });
      expect([pool, copy]).toEqual([
        expect.stringMatching(/CERT|SIGNATURE/),
        expect.stringMatching(/CERT|SIGNATURE/),
      ]);
    }
    const { pool, copy } = await connect("localhost:PORT", { sslmode: "verify-full" });
    expect([pool, copy]).toEqual([
      expect.stringMatching(/CERT|SIGNATURE/),
      expect.stringMatching(/CERT|SIGNATURE/),
    ]);
  });

  it("verifies the server in use, of several", async () => {
    const parameters = { sslmode: "verify-full", sslrootcert: pki.serverCaFile };
    expect(await connect("localhost:1,localhost:PORT", parameters)).toEqual(encrypted);
  });

  it("names the variable when a file cannot be read", async () => {
    const url = "postgres://me@db/fleet?sslmode=verify-full&sslrootcert=/nowhere.crt";
    expect(() => createDatabaseServers(url, "SVC_DATABASE_SESSION_URL")).toThrow(
      "SVC_DATABASE_SESSION_URL: has a file in sslrootcert that cannot be used: cannot be read (ENOENT)",
    );
  });
});
