import { execFile, execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { bundlePrograms } from "#scripts/bundle/bundle-programs.ts";
import { createLabPki } from "#scripts/lab/ca/pki.ts";
import { createCoreProcess, startLabEdge } from "#scripts/lab/core-process.ts";
import { people, seedPeople } from "#scripts/lab/people.ts";
import { createProcesses } from "#scripts/lab/processes.ts";
import { findPorts } from "#scripts/ports.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { createTestDatabase } from "../support/database.ts";

const page = "docs/enroll-by-hand.md";
const cleanup = new AsyncDisposableStack();
let dir: string;
let env: Record<string, string>;
let script: string;

/** Returns the shell blocks of a page, in order. */
const readBlocks = (markdown: string) =>
  markdown
    .matchAll(/^```sh\n(.*?)^```$/gms)
    .map(([, block]) => block ?? "")
    .toArray();

const requireTool = (name: string): void => {
  try {
    execFileSync(name, [name === "openssl" ? "version" : "--version"], { stdio: "ignore" });
  } catch {
    throw new Error(
      `${name} is needed to run ${page} and is not installed (Debian: apt-get install ${name})`,
    );
  }
};

beforeAll(async () => {
  await bundlePrograms();
  for (const tool of ["bash", "curl", "openssl"]) requireTool(tool);
  script = readBlocks(await readFile(page, "utf8")).join("\n");
  dir = newFolder();
  const database = await createTestDatabase();
  cleanup.defer(() => database.drop());
  const { db } = database.connect();
  const lab = await createLabPki({ dir: join(dir, "lab") });
  const given = new AbortController();
  const processes = await createProcesses(dir, (error) => given.abort(error));
  cleanup.defer(() => processes.stopAll());
  const [httpPort = 0, ingestPort = 0] = await findPorts(2, systemEntropy);
  const authTokenSecret = systemEntropy.bytes(32).toHex();
  const core = await createCoreProcess(
    { dir, databaseUrl: database.url, pki: lab, authTokenSecret, httpPort, ingestPort },
    { processes, clock: systemClock, signal: given.signal },
  );
  core.start();
  const edge = await startLabEdge(lab, { coreUrl: core.httpUrl });
  cleanup.defer(() => edge.close());
  await core.ready();
  await seedPeople(db, systemClock.now());
  env = {
    PATH: process.env.PATH ?? "",
    CORE: edge.url,
    CA: lab.serverCaFile,
    SECRET_FILE: join(dir, "auth-token-secret"),
    ADMIN: people.admin.userId,
    AUDITOR: people.auditor.userId,
  };
});
afterAll(() => cleanup.disposeAsync());

const run = (text: string): Promise<{ code: number | string; stdout: string; stderr: string }> =>
  new Promise((resolve) => {
    execFile(
      "bash",
      ["--norc", "-c", text],
      { cwd: dir, env, timeout: 100_000 },
      (error, stdout, stderr) =>
        resolve({ code: error?.code ?? (error ? "killed" : 0), stdout, stderr }),
    );
  });

describe(page, () => {
  it("takes a host from a policy to its revocation with only curl and openssl", async () => {
    const { code, stdout, stderr } = await run(script);
    expect({ code, stderr, stdout: code === 0 ? "" : stdout }).toEqual({
      code: 0,
      stderr: expect.any(String),
      stdout: "",
    });
    expect(stdout).toContain('"scopes":["read","audit","admin"]');
    expect(stdout).toContain("URI:spiffe://fleet.example.test/hand/hand-1");
    expect(stdout).toContain("TLS Web Client Authentication");
    expect(stdout).toContain('"next_heartbeat_seconds":20');
    expect(stdout).toContain('"code":"identity_revoked"');
  });

  it("E12: core logs neither the token nor a key", async () => {
    const log = await readFile(join(dir, "core.log"), "utf8");
    expect(log).toContain('"ready"');
    expect(log).not.toMatch(/svcbt_\w{20}|PRIVATE KEY/);
    expect(log).not.toContain(
      await readFile(join(dir, "auth-token-secret"), "utf8").then((text) => text.trim()),
    );
  });
});
