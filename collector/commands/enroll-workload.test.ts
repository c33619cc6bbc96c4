import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { createTestCollectorEnv } from "#tests/fakes/collector-env.ts";
import {
  issueFor,
  type ManagementServer,
  startManagementServer,
} from "#tests/fakes/management-server.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { runCommandLine } from "./command-line.ts";

const jwt =
  "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJlLW9mLWEtdGVzdA";

let dir: string;
let server: ManagementServer;
const inDir = (name: string) => join(dir, name);

beforeEach(async () => {
  dir = newFolder();
  server = await startManagementServer();
  const clientCa = await createTestCa({ name: "Client CA" });
  await writeFile(inDir("ca.pem"), server.caPem);
  server.reply((call) => issueFor(clientCa, call));
});
afterEach(() => server.close());

const enroll = async (
  tokenFlags: readonly string[] = ["--service-account-token-file", inDir("token")],
  over: Parameters<typeof createTestCollectorEnv>[0] = {},
) => {
  const env = createTestCollectorEnv(over);
  const code = await runCommandLine(
    [
      "enroll",
      "--core",
      server.url,
      "--ingest",
      "localhost:8443",
      "--ca-bundle",
      inDir("ca.pem"),
      "--device-id",
      "node-1",
      "--identity-prefix",
      "https://fleet.test/d/",
      "--config-dir",
      inDir("etc"),
      ...tokenFlags,
    ],
    env,
  );
  return { code, said: env.out() + env.err() };
};

it("sends it, keeps the identity without one, and replaces an expired certificate by itself", async () => {
  await writeFile(inDir("token"), `${jwt}\n`);
  const first = await enroll();
  expect([first.code, server.calls[0]?.authorization]).toEqual([0, `Bearer ${jwt}`]);
  expect(first.said).not.toContain("delete the token file");
  await rm(inDir("token"));
  expect((await enroll()).said).toContain("the identity is kept");
  await writeFile(inDir("token"), jwt);
  expect((await enroll(undefined, { now: Date.UTC(2100, 0) })).code).toBe(0);
  expect(server.calls.length).toBe(2);
  for (const entry of await readdir(inDir("etc"), { withFileTypes: true, recursive: true }))
    if (entry.isFile())
      expect(await readFile(join(entry.parentPath, entry.name), "latin1")).not.toContain(jwt);
});

it("sends no other text, and no token as another kind", async () => {
  const refused = async (text: string, flags?: readonly string[]) => {
    await writeFile(inDir("token"), text);
    const { code, said } = await enroll(flags);
    expect(said).not.toContain(text.slice(0, 20));
    return code;
  };
  expect(await refused(`svcbt_${"A1b2C3d4E5".repeat(5).slice(0, 49)}`)).toBe(1);
  expect(await refused(`${jwt}${"x".repeat(4096)}`)).toBe(1);
  expect(await refused("-----BEGIN PRIVATE KEY-----")).toBe(1);
  expect(await refused(jwt, ["--token-file", inDir("token")])).toBe(1);
  expect(
    await refused(jwt, [
      "--token-file",
      inDir("token"),
      "--service-account-token-file",
      inDir("token"),
    ]),
  ).toBe(2);
  await rm(inDir("token"));
  expect((await enroll()).code).toBe(1);
  expect(server.calls).toHaveLength(0);
});
