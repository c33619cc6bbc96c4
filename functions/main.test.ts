import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { listenOnLoopback } from "#scripts/ports.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { programFile } from "#tests/support/program.ts";

const program = programFile("functions/main.ts");
const directory = newFolder();
const database = await useTestDatabase();

const complete = {
  PORT: "0",
  SVC_HTTP_HOST: "127.0.0.1",
  SVC_DATABASE_URL: database.url,
  SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
  SVC_AUTH_TOKEN_SECRET: "a-test-secret-of-more-than-32-bytes",
  SVC_DIRECTORY_DOMAIN: "example.test",
  SVC_DIRECTORY_DELEGATE_EMAIL: "root@example.test",
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/nowhere/directory.json",
};

const run = (args: string[], env: Record<string, string>) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    env,
    encoding: "utf8",
    timeout: 60_000,
  });
  return { status, stdout, stderr };
};

/** Waits for the log line that says `message`. */
const logLine = async (child: ChildProcess, message: string) => {
  if (child.stdout === null) throw new Error("no stdout");
  for await (const line of createInterface(child.stdout)) {
    const record = JSON.parse(line);
    if (record.msg === message) return record;
  }
  throw new Error(`ended without ${message}`);
};

it("check-config names every fault at once, quotes no value, and exits 78", () => {
  const { status, stderr } = run(["check-config"], {
    ...complete,
    SVC_AUTH_TOKEN_SECRET: "short-secret",
    SVC_DIRECTORY_SYNC_INTERVAL: "soon",
    SVC_INGEST_GRPC_ADDR: "127.0.0.1:0",
    SVC_ENROLLMENT_CA_KEY_FILE: "/ca.key",
    SVC_ENROLLMENT_SIGNER_COMMAND: "/bin/signer",
  });
  expect(status).toBe(78);
  for (const name of [
    "AUTH_TOKEN_SECRET",
    "DIRECTORY_SYNC_INTERVAL",
    "INGEST_CLIENT_CA_FILE",
    "ENROLLMENT_CA_KEY_FILE",
  ])
    expect(stderr).toContain(`SVC_${name}: `);
  expect(stderr).not.toContain("short-secret");
  expect(stderr).not.toContain("soon");
});

it("check-config accepts a valid environment, and suggests the nearest name for an unknown one", () => {
  const { status, stdout, stderr } = run(["check-config"], {
    ...complete,
    SVC_INGEST_MAX_FRAME_BYTE: "1",
  });
  expect([status, stdout]).toEqual([0, "configuration is valid\n"]);
  expect(stderr).toContain(
    "SVC_INGEST_MAX_FRAME_BYTE is not known; did you mean SVC_INGEST_MAX_FRAME_BYTES?",
  );
});

it("C1: rejects a file of issuers, or of a secret, that group or world may write", () => {
  const path = (name: string, contents: string, mode: number) => {
    writeFileSync(join(directory, name), contents);
    chmodSync(join(directory, name), mode);
    return join(directory, name);
  };
  const { status, stderr } = run(["check-config"], {
    ...complete,
    SVC_WORKLOAD_ISSUERS_FILE: path("issuers.yaml", "issuers: []", 0o666),
    SVC_AUTH_TOKEN_SECRET_FILE: path("secret", "x".repeat(40), 0o660),
  });
  const fault = "the file is writable for group or world; chmod it to 0644";
  expect({ status, stderr: stderr.split("\n").sort() }).toEqual({
    status: 78,
    stderr: [
      "",
      `  SVC_AUTH_TOKEN_SECRET_FILE: ${fault}`,
      `  SVC_WORKLOAD_ISSUERS_FILE: ${fault}`,
      "configuration is invalid:",
    ],
  });
});

it("C1: does not start with a CA key that the group may read", async () => {
  const ca = await createTestCa();
  const certificate = join(directory, "ca.pem");
  const key = join(directory, "ca.key");
  writeFileSync(certificate, ca.pem);
  writeFileSync(key, ca.key.pem);
  chmodSync(key, 0o640);
  const env = {
    ...complete,
    SVC_ENROLLMENT_CA_CERT_FILE: certificate,
    SVC_ENROLLMENT_CA_KEY_FILE: key,
  };
  for (const args of [[], ["check-config"]]) {
    const { status, stderr } = run(args, env);
    expect([args, status]).toEqual([args, 78]);
    expect(stderr).toContain("SVC_ENROLLMENT_CA_KEY_FILE: ");
    expect(stderr).not.toContain("PRIVATE KEY");
  }
});

/** Writes a file, and returns its path. */
const write = (name: string, contents: string, mode = 0o600) => {
  writeFileSync(join(directory, name), contents);
  chmodSync(join(directory, name), mode);
  return join(directory, name);
};

it("names the variable of an ingest file that is missing, readable by others, or mismatched, and exits 78 without a stack trace", async () => {
  const ca = await createTestCa();
  const other = await createTestCa();
  const good = {
    SVC_INGEST_GRPC_ADDR: "127.0.0.1:0",
    SVC_INGEST_SERVER_CERT_FILE: write("tls.crt", ca.pem),
    SVC_INGEST_SERVER_KEY_FILE: write("tls.key", ca.key.pem),
    SVC_INGEST_CLIENT_CA_FILE: write("clients.pem", ca.pem),
  };
  const faults: [variable: keyof typeof good, path: string, message: string][] = [
    ["SVC_INGEST_SERVER_CERT_FILE", join(directory, "gone"), "cannot be read (ENOENT)"],
    ["SVC_INGEST_SERVER_KEY_FILE", write("open.key", ca.key.pem, 0o640), "open to group or world"],
    ["SVC_INGEST_SERVER_KEY_FILE", write("other.key", other.key.pem), "that fits the certificate"],
    ["SVC_INGEST_CLIENT_CA_FILE", write("empty.pem", "none"), "holds no certificate"],
  ];
  for (const [variable, file, message] of faults) {
    const { status, stderr } = run([], { ...complete, ...good, [variable]: file });
    expect({ variable, status, stderr }).toEqual({
      variable,
      status: 78,
      stderr: expect.stringMatching(
        new RegExp(`^configuration is invalid:\n {2}${variable}: .*\n$`),
      ),
    });
    expect(stderr).toContain(message);
    expect(stderr).not.toContain(directory);
  }
});

it("check-config refuses what the start refuses, in the same words and all at once", async () => {
  const ca = await createTestCa();
  const signer = write("signer.sh", "#!/bin/sh\n", 0o755);
  const certificate = write("check.pem", ca.pem);
  const faulty = {
    ...complete,
    SVC_DATABASE_URL: `${database.url}${database.url.includes("?") ? "&" : "?"}sslrootcert=${directory}/gone.pem&sslmode=verify-full`,
    SVC_ENROLLMENT_CA_CERT_FILE: certificate,
    SVC_ENROLLMENT_SIGNER_COMMAND: `${signer} --profile host`,
    SVC_INGEST_GRPC_ADDR: "127.0.0.1:0",
    SVC_INGEST_SERVER_CERT_FILE: certificate,
    SVC_INGEST_SERVER_KEY_FILE: write("check.key", ca.key.pem, 0o644),
    SVC_INGEST_CLIENT_CA_FILE: certificate,
    SVC_INGEST_REQUIRE_ENROLLMENT: "true",
    SVC_LICENSE: "a-license",
    SVC_LICENSE_PUBLIC_KEY_FILE: join(directory, "gone.pub"),
    SVC_INFERENCE_CHAT_MODEL: "mock",
    SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: join(directory, "gone.pem"),
    SVC_CHAT_RECEIPT_SIGNING_KEY_ID: "receipts-1",
  };
  const checked = run(["check-config"], faulty);
  expect(checked).toMatchObject({ status: 78, stdout: "" });
  const messages = {
    SVC_DATABASE_URL: "sslrootcert",
    SVC_ENROLLMENT_SIGNER_COMMAND:
      "the signer command cannot be found; it is one path, without arguments",
    SVC_INGEST_SERVER_KEY_FILE: "open to group or world",
    SVC_LICENSE_PUBLIC_KEY_FILE: "cannot be read (ENOENT)",
    SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: "cannot be read (ENOENT)",
  };
  for (const [variable, message] of Object.entries(messages))
    expect(checked.stderr).toMatch(
      new RegExp(`^  ${variable}: .*${message.replace(/[()]/g, "\\$&")}`, "m"),
    );
  expect(checked.stderr).not.toContain(directory);
  const { status, stderr } = run([], faulty);
  expect([status, stderr]).toEqual([78, checked.stderr]);
  expect(run(["check-config"], { ...faulty, SVC_CHAT_ENABLED: "false" }).stderr).not.toContain(
    "CHAT",
  );
});

it("check-config tries the object store, and core does not start with that of another database", async () => {
  const ca = await createTestCa();
  const ingest = {
    ...complete,
    SVC_INGEST_GRPC_ADDR: "127.0.0.1:0",
    SVC_INGEST_SERVER_CERT_FILE: write("store.crt", ca.pem),
    SVC_INGEST_SERVER_KEY_FILE: write("store.key", ca.key.pem),
    SVC_INGEST_CLIENT_CA_FILE: write("store.pem", ca.pem),
  };
  const SVC_INGEST_STORE = `directory:${directory}/telemetry`;
  const missing = { ...ingest, SVC_INGEST_STORE: `directory:${directory}/gone/telemetry` };
  const faulty = run(["check-config"], missing);
  expect(faulty.status).toBe(78);
  expect(faulty.stderr).toContain(
    "SVC_INGEST_STORE: the folder that the directory is to be in does not exist\n",
  );
  const { status, stdout } = run(["check-config"], { ...ingest, SVC_INGEST_STORE });
  expect([status, stdout]).toEqual([0, "configuration is valid\n"]);
  write("telemetry/svc-store.json", '{"database":"another"}');
  const started = run([], { ...ingest, SVC_INGEST_STORE });
  expect(started.status).toBe(1);
  expect(started.stderr).toContain("SVC_INGEST_STORE: the store belongs to another database");
});

it("names the variable of an address in use, and exits 1", async () => {
  const taken = createServer();
  const port = await listenOnLoopback(taken);
  const { status, stderr } = run([], {
    ...complete,
    PORT: String(port),
    SVC_HTTP_HOST: "127.0.0.1",
  });
  taken.close();
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: "PORT: the address is in use by another process\n",
  });
});

it("loads a new CA on SIGHUP, and keeps running without one", async () => {
  const certificate = join(directory, "hup.pem");
  const key = join(directory, "hup.key");
  const write = async () => {
    const ca = await createTestCa();
    writeFileSync(certificate, ca.pem);
    writeFileSync(key, ca.key.pem, { mode: 0o600 });
  };
  await write();
  const env = {
    ...complete,
    SVC_ENROLLMENT_CA_CERT_FILE: certificate,
    SVC_ENROLLMENT_CA_KEY_FILE: key,
  };
  const child = spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "inherit"] });
  await logLine(child, "ready");
  await write();
  child.kill("SIGHUP");
  expect(await logLine(child, "files have changed and are in use")).toMatchObject({
    files: "enrollment CA",
  });
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});

it("exits 0 on SIGTERM while clients hold connections that send nothing", async () => {
  const ca = await createTestCa();
  for (const [name, contents] of [
    ["bare.crt", ca.pem],
    ["bare.key", ca.key.pem],
  ] as const)
    writeFileSync(join(directory, name), contents, { mode: 0o600 });
  const env = {
    ...complete,
    SVC_INGEST_GRPC_ADDR: "127.0.0.1:0",
    SVC_INGEST_SERVER_CERT_FILE: join(directory, "bare.crt"),
    SVC_INGEST_SERVER_KEY_FILE: join(directory, "bare.key"),
    SVC_INGEST_CLIENT_CA_FILE: join(directory, "bare.crt"),
  };
  const child = spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "inherit"] });
  const { port, ingest_port: ingestPort } = await logLine(child, "ready");
  const sockets = [port, ingestPort].map((each) => connect(Number(each), "127.0.0.1"));
  for (const socket of sockets) {
    socket.on("error", () => undefined);
    await once(socket, "connect");
  }
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});

it("serves, exits 0 on SIGTERM, and rejects a database of another tenant", async () => {
  const child = spawn(process.execPath, [program], {
    env: complete,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const { port } = await logLine(child, "ready");
  const answer = await fetch(`http://127.0.0.1:${port}/v1/whoami`);
  expect(answer.status).toBe(401);
  expect(await answer.json()).toMatchObject({ code: "unauthenticated" });
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
  const { sql } = database.connect();
  const [last] =
    await sql`select stopped_at is not null as said_so from core_report order by started_at desc limit 1`;
  expect(last).toEqual({ said_so: true });
  const other = run([], { ...complete, SVC_TENANT_ID: "01920000-0000-7000-8000-000000000002" });
  expect(other.status).toBe(78);
  expect(other.stderr).toContain("SVC_TENANT_ID: is not the tenant");
});
